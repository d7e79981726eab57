"""Codex, with a server of the Responses API whose model follows the story.

codex.py WINK CODEX
"""

import json
import sys

from model import END, Model
from story import STEPS, place, same

NAMESPACE = "mcp__wink"
CALL_IDS = [f"call_story_{number}" for number in range(len(STEPS))]


class Responses(Model):
    def answer(self, path, request):
        if path != "/v1/responses":
            return None
        number, step = self.go_on([item for item in request["input"] if item["type"] == "function_call_output"])
        if step is None:
            content = [{"type": "output_text", "text": END, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        else:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": CALL_IDS[number], "namespace": NAMESPACE}
            item |= {"name": step.tool, "arguments": json.dumps(step.arguments)}
        tokens = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "resp_1", "object": "response", "model": request["model"], "output": []}
        return [
            {"type": "response.created", "response": response | {"status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item | {"status": "completed"}},
            {
                "type": "response.completed",
                "response": response | {"status": "completed", "output": [item], "usage": tokens},
            },
        ]


def visit(at, program, model):
    config = at.home / ".codex" / "config.toml"
    config.parent.mkdir()
    command, *arguments = at.server
    # Strings and lists of JSON are such of TOML.
    config.write_text(f"""
        model = "scripted"
        model_provider = "scripted"
        approval_policy = "never"
        sandbox_mode = "read-only"

        [model_providers.scripted]
        name = "scripted"
        base_url = {json.dumps(model.url + "/v1")}
        env_key = "MODEL_KEY"
        wire_api = "responses"

        [mcp_servers.wink]
        command = {json.dumps(command)}
        args = {json.dumps(arguments)}
        default_tools_approval_mode = "approve"
    """)
    ran = at.run([program, "exec", "--skip-git-repo-check", "--json", "Deploy."], MODEL_KEY="none")
    assert ran.returncode == 0, ran
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    same([item["text"] for item in items if item["type"] == "agent_message"], [END], "how it ended")
    statuses = [item["status"] for item in items if item["type"] == "mcp_tool_call"]
    same(statuses, ["failed" if step.error else "completed" for step in STEPS], "what it took for failures")
    # In front of each answer it says how long it took.
    model.check([(result["call_id"], result["output"][-1]["text"]) for result in model.results], CALL_IDS)


def main():
    wink, program = sys.argv[1:]
    with place(wink) as at, Responses(at) as model:
        visit(at, program, model)
    print("    ok")


main()
