"""The MCP inspector's command-line mode: lists the tools and calls them, with a handshake and without.

inspector.py WINK INSPECTOR
"""

import json
import sys

from story import FILES, STEPS, place, same

ERAS = ["legacy", "modern"]
# How it ends when a result is a failure.
FAILED = 5


def inspect(at, program, era, *arguments):
    ran = at.run([program, "--cli", *at.server, "--protocol-era", era, "--format", "json", *arguments])
    assert ran.returncode in (0, FAILED), ran
    return ran.returncode, json.loads(ran.stdout)["result"]


def visit(at, program, era):
    # It reads the schemas, too, and would not end with 0 if clients could not use them.
    status, listed = inspect(at, program, era, "--strict", "--method", "tools/list")
    same((status, [tool["name"] for tool in listed["tools"]]), (0, ["run_tests", "deploy"]), "the tools")
    same(listed["tools"][1]["inputSchema"]["required"], ["environment"], "what deploy needs")

    for number, step in enumerate(STEPS):
        arguments = ["--tool-args-json", json.dumps(step.arguments)]
        status, result = inspect(at, program, era, "--method", "tools/call", "--tool-name", step.tool, *arguments)
        same(result["content"], [{"type": "text", "text": step.answer}], "the answer")
        same((status, result.get("isError", False)), (FAILED, True) if step.error else (0, False), "the failure")
        same(at.files(), FILES[number], "the files in the workspace")
    at.check()


def main():
    wink, program = sys.argv[1:]
    for era in ERAS:
        with place(wink) as at:
            visit(at, program, era)
        print(f"    {era}: ok")


main()
