"""`wink run` with Claude Code in the model's place, which asks a server of the Messages API: first a model that follows the story, with our
tools, then one that edits files with the program's own.

claude_run.py WINK CLAUDE
"""

import json
import os
import sys

from claude_code import CALL_IDS, Messages, text
from model import END
from story import STEPS, place, same

AGENT = """
[agent]
ns = "clients"
key = "natives"

[model]
provider = "claude"
model = "scripted"
key_env = "ANTHROPIC_API_KEY"
url = "URL"
native_tools = ["Read", "Edit"]

[[policy]]
paths = { deny = ["secrets/**"] }
"""
# Stands behind the program: when it says that an edit was made, the file is looked at before anybody else hears of it.
BEHIND = """#!/bin/sh
'PROGRAM' "$@" | while IFS= read -r line; do
    case $line in *'"hook_event_name":"PostToolUse"'*'"tool_name":"Edit"'*) cat notes.txt wink.toml >> 'SEEN' ;; esac
    printf '%s\\n' "$line"
done
"""


class Edits(Messages):
    """A model that reads and edits three files: one that it may, the agent's own, and one that a policy keeps from it."""

    def answer(self, path, request):
        if path.partition("?")[0] != "/v1/messages":
            return None
        if "Edit" not in {tool["name"] for tool in request.get("tools", [])}:
            return self.message(request, {"type": "text", "text": "Edits"}, "end_turn")
        contents = (message["content"] for message in request["messages"] if message["role"] == "user")
        blocks = (block for content in contents if isinstance(content, list) for block in content)
        self.results = [block for block in blocks if block["type"] == "tool_result"]
        calls = self.calls()
        if len(self.results) == len(calls):
            return self.message(request, {"type": "text", "text": END}, "end_turn")
        name, given = calls[len(self.results)]
        call = {"type": "tool_use", "id": f"toolu_edit_{len(self.results)}", "name": name, "input": given}
        return self.message(request, call, "tool_use")

    def calls(self):
        def file(name):
            return {"file_path": str(self.at.workspace.resolve() / name)}

        def edit(name, old, new):
            return ("Edit", file(name) | {"old_string": old, "new_string": new})

        return [
            ("Read", file("notes.txt")),
            edit("notes.txt", "one", "two"),
            ("Read", file("wink.toml")),
            edit("wink.toml", "scripted", "another"),
            edit("secrets/key.txt", "one", "two"),
        ]


def environment(at):
    return {
        # The program is looked for by its name.
        "PATH": f"{at.home / 'bin'}:{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "sk-ant-none-of-yours",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }


def with_our_tools(wink, program):
    with place(wink) as at, Messages(at) as model:
        (at.home / "bin").mkdir()
        (at.home / "bin" / "claude").symlink_to(os.path.abspath(program))
        ran = at.run(
            [at.wink, "run", "Deploy.", "--model", "claude:scripted", "--base-url", model.url, "--key-env", "ANTHROPIC_API_KEY"]
            + ["--workspace", str(at.workspace), "--json"],
            **environment(at),
        )
        assert ran.returncode == 0, ran
        told = json.loads(ran.stdout)
        usage = told.pop("usage")
        expected = {"output": END, "turns": len(STEPS) + 1, "calls": len(STEPS), "rolled_back": 1, "denied": 1}
        same(told, expected | {"stopped_by": "completed"}, "what it printed")
        same(usage["output_tokens"], len(STEPS) + 1, "what it used")
        failed = [block.get("is_error", False) for block in model.results]
        same(failed, [step.error is not None for step in STEPS], "what the model was told of failures")
        model.check([(block["tool_use_id"], text(block["content"])) for block in model.results], CALL_IDS)


def with_its_own(wink, program):
    with place(wink) as at, Edits(at) as model:
        (at.home / "bin").mkdir()
        behind, seen = at.home / "bin" / "claude", at.home / "seen"
        behind.write_text(BEHIND.replace("PROGRAM", os.path.abspath(program)).replace("SEEN", str(seen)))
        behind.chmod(0o755)
        agent, notes, key = AGENT.replace("URL", model.url), at.workspace / "notes.txt", at.workspace / "secrets" / "key.txt"
        (at.workspace / "wink.toml").write_text(agent)
        notes.write_text("one\n")
        key.parent.mkdir()
        key.write_text("one\n")

        def wink_does(*arguments):
            return at.run([at.wink, *arguments, "--workspace", str(at.workspace)], **environment(at))

        ran = wink_does("run", "Edit.", "--json")
        assert ran.returncode == 0, ran
        told = json.loads(ran.stdout)
        counts = {name: told[name] for name in ("output", "calls", "rolled_back", "denied")}
        same(counts, {"output": END, "calls": 5, "rolled_back": 1, "denied": 1}, "what it printed")
        same(model.unknown, [], "requests that the model does not understand")
        # The one that failed had been made as well.
        same(seen.read_text(), f"two\n{agent}two\n{agent.replace('scripted', 'another')}", "the files right after each edit")
        same((at.workspace / "wink.toml").read_text(), agent, "the file whose edit failed")
        same((notes.read_text(), key.read_text()), ("two\n", "one\n"), "the files in the end")
        rows = [(row["tool"], row["arguments"]["path"], row["error"] and row["error"]["kind"]) for row in at.log()]
        expected = [
            ("claude_read", "notes.txt", None),
            ("claude_edit", "notes.txt", None),
            ("claude_read", "wink.toml", None),
            ("claude_edit", "wink.toml", "errored"),
            ("claude_edit", "secrets/key.txt", "denied"),
        ]
        same(rows, expected, "the log")
        undone = wink_does("undo", "2")
        assert undone.returncode == 0, undone
        same(notes.read_text(), "one\n", "the file whose edit was undone")


def main():
    wink, program = sys.argv[1:]
    with_our_tools(wink, program)
    with_its_own(wink, program)
    print("    ok")


main()
