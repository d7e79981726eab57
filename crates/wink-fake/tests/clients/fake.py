"""The fake provider as a context: `with fake(PROGRAM, turns) as url`."""

import contextlib
import json
import subprocess


@contextlib.contextmanager
def fake(program, turns):
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        server.stdin.write("\n".join(json.dumps(turn) for turn in turns))
        server.stdin.close()
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def call(id, name, arguments):
    return {"id": id, "name": name, "arguments": json.dumps(arguments)}


USAGE = {"input_tokens": 50, "output_tokens": 7, "cached_tokens": 30}
CALLS = [call("call_1", "read", {"path": "a", "limit": None}), call("call_2", "list", {})]
READ = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": ["integer", "null"]}},
    "required": ["path", "limit"],
    "additionalProperties": False,
}
LIST = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
