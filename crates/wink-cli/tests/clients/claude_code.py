"""Claude Code, with a server of the Messages API whose model follows the story.

claude_code.py WINK CLAUDE
"""

import json
import sys

from model import Model
from story import STEPS, place, same

PREFIX = "mcp__wink__"
TOOLS = [f"{PREFIX}{step.tool}" for step in STEPS]
END = "That was all."


class Messages(Model):
    """One request has the whole conversation: as many results as it has, so many steps are done."""

    def answer(self, path, request):
        if not path.startswith("/v1/messages?") and path != "/v1/messages":
            return None
        if not set(TOOLS) <= {tool["name"] for tool in request.get("tools", [])}:
            # What it asks beside the conversation, such as for a title.
            return self.message(request, {"type": "text", "text": "Release"}, "end_turn")
        contents = (message["content"] for message in request["messages"] if message["role"] == "user")
        blocks = (block for content in contents if isinstance(content, list) for block in content)
        self.results = [block for block in blocks if block["type"] == "tool_result"]
        done = len(self.results)
        if done == len(STEPS):
            return self.message(request, {"type": "text", "text": END}, "end_turn")
        step = STEPS[done]
        call = {"type": "tool_use", "id": call_id(done), "name": TOOLS[done], "input": step.arguments}
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


def call_id(step):
    return f"toolu_story_{step}"


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
        + ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", ",".join(sorted(set(TOOLS)))],
        ANTHROPIC_BASE_URL=model.url,
        ANTHROPIC_API_KEY="none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        DISABLE_TELEMETRY="1",
        # Otherwise it shows the model a search for tools in place of the tools.
        ENABLE_TOOL_SEARCH="false",
    )
    assert ran.returncode == 0, ran
    same(model.unknown, [], "requests that the model does not understand")

    results = [(block["tool_use_id"], text(block["content"]), block.get("is_error", False)) for block in model.results]
    expected = [(call_id(number), step.answer, step.error is not None) for number, step in enumerate(STEPS)]
    same(results, expected, "what the model was told")
    last = json.loads(ran.stdout.splitlines()[-1])
    same((last["type"], last["is_error"], last["result"]), ("result", False, END), "how it ended")
    # It says which call it is, and that is what the log knows it by.
    at.check(STEPS, [call_id(number) for number in range(len(STEPS))])


def main():
    wink, program = sys.argv[1:]
    with place(wink) as at, Messages() as model:
        visit(at, program, model)
    print("    ok")


main()
