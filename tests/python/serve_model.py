"""Serves a model by `python -m tessera serve`, asks whether it is ready, and ends the server: serve_model.py MODEL"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request


def serve(model, **options):
    """Raises if the server does not become ready or does not end well; options are those of Popen."""
    command = [sys.executable, "-B", "-m", "tessera", "serve", model, "--json", "--grpc", "off"]
    for port in ("http", "metrics"):
        command += [f"--{port}", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as server:
        try:
            port = json.loads(server.stdout.readline())["http"]
            url = f"http://127.0.0.1:{port}/v2/models/{pathlib.Path(model).stem}/ready"
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200, answer.status
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) == 0, server.returncode
        finally:
            server.kill()


if __name__ == "__main__":
    serve(os.path.abspath(sys.argv[1]))
    print("served")
