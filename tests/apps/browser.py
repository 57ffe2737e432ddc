"""Looks at a page in headless Chromium."""
import html
import json
import re
import subprocess


def probe(chromium, folder, page, script, width, *flags):
    """What `script`, run in the loaded page at this width, returns (an object), as parsed JSON. AssertionError when the
    console has messages.

    `folder` is for files; the script is the body of an asynchronous function.
    """
    element = f"""<script>addEventListener("load", async () => {{
      const probe = document.createElement("pre");
      probe.id = "probe";
      probe.textContent = JSON.stringify(await (async () => {{ {script} }})());
      document.body.append(probe);
    }});</script>"""
    (folder / "probed.html").write_text(page.replace("</body>", element + "</body>"))
    # A window has at least 500 pixels: a frame has as few as a phone.
    frame = f'<iframe src="probed.html" width="{width}" height="3000"></iframe>'
    copy = ('const wait = setInterval(() => { const found = f.contentDocument.getElementById("probe");'
            ' if (found) { clearInterval(wait); document.body.append(found.cloneNode(true)); } }, 50);')
    (folder / "frame.html").write_text(
        f'<body>{frame}<script>const f = document.querySelector("iframe"); {copy}</script>')
    command = [
        chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=4000", *flags,
        "--dump-dom", (folder / "frame.html").as_uri()
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(html.unescape(found.group(1)))


# What a page measures: how far it is wider than the screen, its height as it opens and with all details open, and the
# tables that are cut off by their card without saying so.
LAYOUT = """
  const main = document.querySelector("main"), frame = () => new Promise(done => setTimeout(done, 100));
  const height = main.getBoundingClientRect().height;
  document.querySelectorAll("details").forEach(details => { details.open = true; });
  await frame();
  const tables = [...document.querySelectorAll(".table")].map(table => {
    const scroll = table.querySelector(".scroll");
    return { label: scroll.getAttribute("aria-label"), wider: scroll.scrollWidth > scroll.clientWidth + 1,
      hinted: table.querySelector(".hint").getBoundingClientRect().height > 0, reachable: scroll.tabIndex === 0,
      tallest_row: Math.max(...[...table.querySelectorAll("tbody tr")].map(row => row.offsetHeight)) };
  });
  const texts = [...document.querySelectorAll("section p, section li, section .gain, section .value")];
  const outside = texts.filter(element => {
    const box = element.getBoundingClientRect(), card = element.closest("section").getBoundingClientRect();
    return box.width > 0 && !element.closest(".scroll") && box.right > card.right + 1;
  }).map(element => element.textContent);
  return { height, open_height: main.getBoundingClientRect().height, tables, outside,
    overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


def check_layout(test, chromium, folder, page, width, *flags):
    """The page fits a screen of this width: its body does not scroll sideways, tables that do say so, nothing is
    long."""
    found = probe(chromium, folder, page, LAYOUT, width, *flags)
    test.assertLessEqual(found["overflow"], 0, f"at {width} px the page is wider than the screen")
    test.assertEqual(found["outside"], [], f"at {width} px texts run out of their cards")
    test.assertLess(found["height"], 5000 if width > 600 else 7500)
    test.assertLess(found["open_height"], 9000 if width > 600 else 14000)
    for table in found["tables"]:
        test.assertEqual(table["wider"], table["hinted"], f"at {width} px: {table}")
        test.assertEqual(table["wider"], table["reachable"], f"at {width} px: {table}")
        test.assertLess(table["tallest_row"], 110 if width > 600 else 150, f"at {width} px: {table}")
    return found
