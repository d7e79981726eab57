"""`wink run` with Claude Code in the model's place, which asks a server of the Messages API whose model follows the story.

claude_run.py WINK CLAUDE
"""

import json
import os
import sys

from claude_code import CALL_IDS, Messages, text
from model import END
from story import STEPS, place, same


def main():
    wink, program = sys.argv[1:]
    with place(wink) as at, Messages(at) as model:
        # It is looked for by its name.
        (at.home / "bin").mkdir()
        (at.home / "bin" / "claude").symlink_to(os.path.abspath(program))
        ran = at.run(
            [at.wink, "run", "Deploy.", "--model", "claude:scripted", "--base-url", model.url, "--key-env", "ANTHROPIC_API_KEY"]
            + ["--workspace", str(at.workspace), "--json"],
            PATH=f"{at.home / 'bin'}:{os.environ['PATH']}",
            ANTHROPIC_API_KEY="sk-ant-none-of-yours",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            DISABLE_TELEMETRY="1",
            ENABLE_TOOL_SEARCH="false",
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
    print("    ok")


main()
