#!/usr/bin/env python3
"""Trees that check_floors.py must accept or refuse."""
import pathlib
import tempfile
import unittest

from check_floors import check_tree
from function_lengths import function_faults, functions


class CheckFloors(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src").mkdir()
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_tree(root)

    def assert_refused(self, files, *expected):
        self.assertEqual(self.violations(files), list(expected))

    def test_accepts_lower_floors_public_and_foreign_headers(self):
        self.assertEqual(
            self.violations({
                "src/ops/a.cpp": '#include "ops/a.h"\n#include "ir/graph.h"\n#include "tessera/error.h"\n#include '
                                 '<vector>\n',
                "src/base/a.cpp": '#include "tessera/tensor.h"\n#include "hwy/foreach_target.h"\n',
                "src/serve/a.cpp": '#include "share/jobs.h"\n',
                "apps/tessera/main.cpp": '#include "serve/http.h"\n',
                "include/tessera/a.h": '#include <cstdint>\n#include "tessera/error.h"\n',
                "tests/ir/a_test.cpp": '#include "runtime/session.h"\n',
            }), [])

    def test_refuses_a_higher_floor(self):
        self.assert_refused({"src/ir/a.cpp": '#include <map>\n#  include "ops/core/op.h"\n'},
                            "src/ir/a.cpp:2: 'ir' may not use 'ops', which stands above it")

    def test_refuses_a_sibling_among_the_uses_of_the_core(self):
        self.assert_refused({"src/share/a.h": '#include "compress/core/costs.h"\n'},
                            "src/share/a.h:1: 'share' may not use 'compress', which stands beside it")

    def test_refuses_internal_and_foreign_headers_in_the_public_api(self):
        self.assert_refused(
            {"include/tessera/a.h": '#include "base/error.h"\n#include <fmt/format.h>\n'},
            "include/tessera/a.h:1: public headers use public headers and the standard library only, not base/error.h",
            "include/tessera/a.h:2: public headers use public headers and the standard library only, not fmt/format.h")

    def test_keeps_devices_apart(self):
        self.assert_refused({
            "src/backends/backend.cpp": '#include "backends/cpu/cpu_device.h"\n',
            "src/backends/backend_table.cpp": '#include "backends/cpu/cpu_device.h"\n',
            "src/backends/cpu/a.cpp": '#include "backends/backend.h"\n#include "backends/host/numeric.h"\n'
                                      '#include "backends/reference/reference_device.h"\n'
                                      '#include "backends/reference/lines.h"\n#include "backends/cpu/a.h"\n',
            "src/backends/host/a.cpp": '#include "backends/backend.h"\n'
                                       '#include "backends/reference/reference_device.h"\n',
            "src/backends/null/a.cpp": '#include "backends/cpu/a.h"\n#include "backends/backend_table.h"\n',
            "src/backends/simulated/a.cpp": '#include "backends/cpu/cpu_device.h"\n#include "backends/cpu/a.h"\n',
        }, "src/backends/backend.cpp:1: only backend_table.cpp may name a device",
            "src/backends/cpu/a.cpp:4: device 'cpu' may use of 'reference' only its reference_device.h",
            "src/backends/host/a.cpp:2: device 'host' may not use device 'reference'",
            "src/backends/null/a.cpp:1: device 'null' may not use device 'cpu'",
            "src/backends/null/a.cpp:2: a device may not use the list of devices",
            "src/backends/simulated/a.cpp:2: device 'simulated' may use of 'cpu' only its cpu_device.h")

    def test_keeps_the_inside_of_the_reference_to_itself(self):
        self.assert_refused(
            {
                "src/runtime/a.cpp": '#include "backends/reference/reference_device.h"\n'
                '#include "backends/host/numeric.h"\n#include "backends/reference/lines.h"\n',
            },
            "src/runtime/a.cpp:3: the inside of device 'reference' is its own; what others need belongs in "
            "backends/host"
        )

    def test_keeps_cuda_in_its_place(self):
        self.assert_refused(
            {
                "src/backends/cuda/a.cu": "#include <cuda_runtime.h>\n",
                "src/runtime/a.cpp": "#include <cuda_runtime.h>\n"
            }, "src/runtime/a.cpp:1: CUDA header <cuda_runtime.h> outside src/backends/cuda")

    def test_refuses_folders_without_a_floor(self):
        self.assert_refused({"src/attic/a.cpp": ""}, "src/attic: has no floor; add it to FLOORS in check_floors.py")

    def test_long_files_need_a_reason(self):
        self.assert_refused({
            "src/ir/a.cpp": "int x;\n" * 401,
            "src/ir/b.cpp": "// Length: one table\n" + "int x;\n" * 401,
            "tests/ir/a_test.cpp": "int x;\n" * 600,
            "tests/ir/b_test.cpp": "int x;\n" * 601,
        }, "src/ir/a.cpp:1: 401 lines, over 400; split it, or give the reason in a line '// Length: …'",
            "tests/ir/b_test.cpp:1: 601 lines, over 600; split it, or give the reason in a line '// Length: …'")

    def test_refuses_wide_lines_in_sources_scripts_and_build_files(self):
        wide = "# " + "é" * 119 + "\n"
        self.assert_refused({
            "src/ir/a.cpp": "// " + "é" * 117 + "\n// " + "é" * 118 + "\n",
            "src/ir/CMakeLists.txt": wide,
            "scripts/a.sh": wide,
            "tests/ir/a.py": wide,
            "tests/fuzz/seeds/a.cpp": wide,
        }, "src/ir/CMakeLists.txt:1: 121 columns, over 120", "src/ir/a.cpp:2: 121 columns, over 120",
            "tests/ir/a.py:1: 121 columns, over 120", "scripts/a.sh:1: 121 columns, over 120")


class FunctionLengths(unittest.TestCase):
    def lengths(self, text):
        return [end - begin + 1 for begin, end in functions(text.splitlines())]

    def test_finds_functions_whatever_their_heads_look_like(self):
        self.assertEqual(self.lengths("""namespace a {
int f(int x) {
  if (x) {
    return 1;
  }
  return 0;
}
template <typename T>
auto g(T x,
       int y = 0) -> std::vector<T> {
  return {x};
}
class C : public D {
 public:
  C(int x)
      : x_(x) {
    x_ += 1;
  }
  bool h() const override {
    return true;
  }
  int short_one() const { return x_; }
};
}  // namespace a
"""), [6, 5, 4, 3])

    def test_counts_lambdas_as_part_and_leaves_out_types_and_tables(self):
        self.assertEqual(self.lengths("""struct S {
  int x;
};
const int kTable[] = {
    1,
};
const auto kMap = make({
    {1, 2},
});
void f() {
  const auto g = [](int x) {
    return x;
  };
}
"""), [5])

    def test_long_ones_need_a_reason_unless_they_are_kernels(self):
        text = "void f() {\n" + "  g();\n" * 79 + "}\n"
        fault = "a function of 81 lines, over 80; split it, or give the reason in a line '// Length: …' above it"
        self.assertEqual(list(function_faults(pathlib.Path("src/ir/a.cpp"), text.splitlines())), [(1, fault)])
        self.assertEqual(list(function_faults(pathlib.Path("src/backends/cpu/rows/a.cpp"), text.splitlines())), [])
        reasoned = "// Length: a table.\n// What f does.\n" + text
        self.assertEqual(list(function_faults(pathlib.Path("src/ir/a.cpp"), reasoned.splitlines())), [])
        shorter = text.replace("  g();\n", "", 1)
        self.assertEqual(list(function_faults(pathlib.Path("src/ir/a.cpp"), shorter.splitlines())), [])


if __name__ == "__main__":
    unittest.main()
