"""Claude Code, with a server of the Messages API whose model follows the story.

claude_code.py WINK CLAUDE
"""

import json
import sys

from model import END, Model
from story import STEPS, place, same

NAMES = [f"mcp__wink__{step.tool}" for step in STEPS]
CALL_IDS = [f"toolu_story_{number}" for number in range(len(STEPS))]


class Messages(Model):
    def answer(self, path, request):
        if path.partition("?")[0] != "/v1/messages":
            return None
        if not set(NAMES) <= {tool["name"] for tool in request.get("tools", [])}:
            # What it asks beside the conversation, such as for a title.
            return self.message(request, {"type": "text", "text": "Release"}, "end_turn")
        contents = (message["content"] for message in request["messages"] if message["role"] == "user")
        blocks = (block for content in contents if isinstance(content, list) for block in content)
        number, step = self.go_on([block for block in blocks if block["type"] == "tool_result"])
        if step is None:
            return self.message(request, {"type": "text", "text": END}, "end_turn")
        call = {"type": "tool_use", "id": CALL_IDS[number], "name": NAMES[number], "input": step.arguments}
        return self.message(request, call, "tool_use")

    def message(self, request, block, stop_reason):
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"]}
        rest = {"stop_reason": stop_reason, "stop_sequence": None}
        if not request.get("stream"):
            return message | rest | {"content": [block], "usage": usage}
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        begun = message | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": rest, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]


def text(content):
    """Of a result: a text, or blocks of it."""
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def visit(at, program, model):
    config = at.home / "mcp.json"
    command, *arguments = at.server
    server = {"type": "stdio", "command": command, "args": arguments}
    config.write_text(json.dumps({"mcpServers": {"wink": server}}))
    ran = at.run(
        [program, "-p", "Deploy.", "--tools", "", "--model", "scripted", "--output-format", "stream-json", "--verbose"]
        + ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", ",".join(sorted(set(NAMES)))],
        ANTHROPIC_BASE_URL=model.url,
        ANTHROPIC_API_KEY="none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        DISABLE_TELEMETRY="1",
        # Otherwise it shows the model a search for tools in place of the tools.
        ENABLE_TOOL_SEARCH="false",
    )
    assert ran.returncode == 0, ran
    last = json.loads(ran.stdout.splitlines()[-1])
    same((last["type"], last["is_error"], last["result"]), ("result", False, END), "how it ended")
    failed = [block.get("is_error", False) for block in model.results]
    same(failed, [step.error is not None for step in STEPS], "what the model was told of failures")
    model.check([(block["tool_use_id"], text(block["content"])) for block in model.results], CALL_IDS)


def main():
    wink, program = sys.argv[1:]
    with place(wink) as at, Messages(at) as model:
        visit(at, program, model)
    print("    ok")


if __name__ == "__main__":
    main()
