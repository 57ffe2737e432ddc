#!/usr/bin/env python3
"""`tessera train` and `tessera eval` on tables as people have them: missing values in many spellings, semicolons and
decimal commas, rows that cannot be read, categories that the training data lack. Standard library only.

    tables_test.py TESSERA
"""
import json
import pathlib
import random
import tempfile
import unittest

import program
from program import WRONG_CALL, run

CONFIG = """output = "{output}"
[model]
builder = "mlp"
options = {{ features = {inputs}, width = 16, classes = 2 }}
[data]
train = "{train}"
test = "{test}"
target_column = "rich"
batch = 16
[optimiser]
name = "adamw"
learning_rate = 0.01
[train]
epochs = 20
seed = 1
"""


def rows(count, seed):
    """Age, income and town of people, of whom those with more income than age times 1000 are rich."""
    numbers = random.Random(seed)
    made = []
    for _ in range(count):
        age, income = numbers.randint(20, 80), numbers.randint(10, 100) * 1000
        made.append([str(age), str(income), numbers.choice(["Rome", "Oslo"]), "yes" if income > age * 1000 else "no"])
    return made


def table(lines, names=("age", "income", "town", "rich"), separator=","):
    return "\n".join(separator.join(line) for line in [names, *lines]) + "\n"


class Tables(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def train(self, train, test, *arguments, inputs=4, name="run", ending="csv"):
        for text, file in [(train, f"train.{ending}"), (test, f"test.{ending}")]:
            (self.folder / file).write_text(text)
        config = self.folder / "config.toml"
        config.write_text(CONFIG.format(output=self.folder / name, train=self.folder / f"train.{ending}",
                                        test=self.folder / f"test.{ending}", inputs=inputs))
        return run("train", config, *arguments)

    def result(self, *arguments, **options):
        done = self.train(*arguments, "--json", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_missing_values_do_not_change_what_a_column_is(self):
        train, test = rows(600, 1), rows(200, 2)
        plain, _ = self.result(table(train), table(test))
        self.assertGreater(plain["test_accuracy"], 0.9)
        for i, spelling in enumerate(["NA", "N/A", "NaN", "null", "None", "?", "-", ""]):
            train[50 * i + 3][1] = spelling
        test[5][0] = "nan"  # a new one, in a column that had none
        result, _ = self.result(table(train), table(test), name="missing")
        columns = {column["name"]: column for column in result["columns"]}
        self.assertEqual(columns["income"]["encoding"], "z_score")
        self.assertEqual(columns["income"]["missing"], 8)
        self.assertEqual(columns["town"]["encoding"], "one_hot")
        self.assertGreater(result["test_accuracy"], 0.9)
        self.assertEqual(result["test_samples"], 200)
        first = json.loads((self.folder / "missing/log.jsonl").read_text().splitlines()[0])
        self.assertEqual(first["columns"], result["columns"])

    def test_says_how_columns_are_encoded(self):
        done = self.train(table(rows(100, 1)), table(rows(50, 2)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("column age: z_score of numbers with mean", done.stderr)
        self.assertIn("column town: one_hot of 2 categories: Oslo, Rome", done.stderr)
        self.assertIn("target rich: 2 classes: no, yes", done.stderr)

    def test_one_word_among_numbers_is_announced(self):
        train = rows(100, 1)
        train[41][0] = "unknown"
        result, messages = self.result(table(train), table(rows(50, 2)))
        self.assertIn("train.csv' line 43, column 'age': 'unknown' is no number, as 99 others are", messages)
        self.assertEqual(result["columns"][0]["encoding"], "z_score")
        done = self.train(table(train), table(rows(50, 2)), "--set", "data.encodings.age=z_score", name="given")
        self.assertEqual(done.returncode, WRONG_CALL)
        self.assertIn("column 'age' holds 'unknown', which is no number", done.stderr)
        self.assertIn("train.csv' line 43", done.stderr)

    def test_many_words_are_announced_before_they_are_counted(self):
        train, test = rows(200, 1), rows(50, 2)
        for i, row in enumerate(train + test):
            row[1] = f'"{i + 1},000"'
        _, messages = self.result(table(train), table(test), inputs=4)
        self.assertIn("column 'income': its many different values, such as '1,000' in line 2, are no numbers", messages)

    def test_semicolons_tabs_and_decimal_commas(self):
        train, test = rows(300, 1), rows(100, 2)
        for made in [train, test]:
            for row in made:
                row[1] = f"{int(row[1]) / 1000:.2f}"
        plain, _ = self.result(table(train), table(test))
        for made in [train, test]:
            for row in made:
                row[1] = row[1].replace(".", ",")
        for name, separator, ending in [("semicolons", ";", "csv"), ("tabs", "\t", "tsv")]:
            result, _ = self.result(table(train, separator=separator), table(test, separator=separator), name=name,
                                    ending=ending)
            self.assertEqual(result["test_loss"], plain["test_loss"])

    def test_rows_that_cannot_be_read_are_left_out_and_counted(self):
        train, test = rows(300, 1), rows(200, 2)
        self.result(table(train), table(test[:100]))
        good = json.loads(run("eval", self.folder / "run", "--json").stdout)
        for row in test[100:]:
            row[0] = "???"
        (self.folder / "half.csv").write_text(table(test))
        half = json.loads(
            run("eval", self.folder / "run", "--set", f"data.test={self.folder / 'half.csv'}", "--json").stdout)
        self.assertEqual((half["samples"], half["skipped_samples"]), (100, 100))
        self.assertEqual(half["test_accuracy"], good["test_accuracy"])
        self.assertAlmostEqual(half["test_loss"], good["test_loss"], places=6)
        done = run("eval", self.folder / "run", "--set", f"data.test={self.folder / 'half.csv'}")
        self.assertIn("of 100 samples; 100 could not be read, such as", done.stdout)
        self.assertIn("half.csv line 102: column 'age' holds '???', which is no number", done.stdout)

    def test_categories_that_the_training_data_lack_are_announced(self):
        test = rows(50, 2)
        test[7][2] = "Paris"
        _, messages = self.result(table(rows(100, 1)), table(test))
        self.assertIn("test.csv' line 9, column 'town': the training data have no category 'Paris'", messages)

    def test_tables_that_are_none(self):
        for text, train in [("train.csv' line 2, character", table([["1", "2", "5\" pipe", "no"]] * 3)),
                            ("the columns 1 and 2 are both named 'age'",
                             table(rows(5, 1), ("age", "age", "town", "rich"))),
                            ("has no column 'rich'; its columns are", table(rows(5, 1), ("a", "b", "c", "d"))),
                            ("the first line must hold names", "1,2,3\n4,5,6\n"),
                            ("no rows that can be read; the first one, in line 2, has 5 cells, expected 4",
                             table([[*row, "x"] for row in rows(5, 1)]))]:
            done = self.train(train, table(rows(5, 2)))
            self.assertEqual(done.returncode, WRONG_CALL)
            self.assertIn(text, done.stderr)

    def test_the_exported_net_takes_the_columns_as_they_are(self):
        train = rows(200, 1)
        train[3][2] = "NA"
        self.result(table(train), table(rows(50, 2)), inputs=5)
        info = run("info", self.folder / "run/model.onnx", "--json")
        self.assertEqual(info.returncode, 0, info.stderr)
        self.assertIn("town", info.stdout)


if __name__ == "__main__":
    program.main()
