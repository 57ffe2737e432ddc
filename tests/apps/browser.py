"""Looks at a page in headless Chromium."""
import json
import re
import subprocess


def probe(chromium, folder, page, script, width, *flags):
    """What `script`, run in the loaded page at this width, returns (an object), as parsed JSON. AssertionError when the console has messages.

    `folder` is for files; the script is the body of a function.
    """
    element = f"""<script>addEventListener("load", () => {{
      const probe = document.createElement("pre");
      probe.id = "probe";
      probe.textContent = JSON.stringify((() => {{ {script} }})());
      document.body.append(probe);
    }});</script>"""
    (folder / "probed.html").write_text(page.replace("</body>", element + "</body>"))
    # A window has at least 500 pixels: a frame has as few as a phone.
    frame = f'<iframe src="probed.html" width="{width}" height="3000"></iframe>'
    (folder / "frame.html").write_text(f'<body>{frame}<script>const f=document.querySelector("iframe");'
                                       'f.addEventListener("load",()=>setTimeout(()=>document.body.append(f.contentDocument.getElementById("probe").cloneNode(true)),100));</script>')
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr",
               f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=4000", *flags, "--dump-dom", (folder / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
