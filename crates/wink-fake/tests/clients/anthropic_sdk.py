"""Anthropic's own SDK as a client of the fake provider: `anthropic_sdk.py PROGRAM`. Whatever the fake says, the SDK has to accept."""

import json
import sys

import anthropic
from fake import ANSWER, CALLS, LIST, READ, USAGE, fake

PROGRAM = sys.argv[1]
HI = [{"role": "user", "content": "Hi"}]
TOOLS = [
    {"name": "read", "description": "Reads.", "input_schema": READ, "input_examples": [{"path": "a", "limit": None}]},
    {"name": "list", "description": "Lists.", "input_schema": LIST, "strict": True},
]


def client(url):
    # What does not have the documented form is an error, and not an object with fields missing.
    return anthropic.Anthropic(base_url=url, api_key="a-key", max_retries=0, _strict_response_validation=True)


def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return error
    raise AssertionError(f"there was no {kind}")


def visit(streamed):
    turns = [
        {"text": "Hello, ünï", "usage": USAGE, "chunk": 3},
        {"text": "I look.", "thinking": "Hm.", "tool_calls": CALLS, "usage": USAGE},
        {"text": "Done."},
        {"text": '{"answer": 42}'},
        {"text": "No.", "stop": "refused"},
        {"text": "Half", "stop": "truncated"},
        {"text": "Wait", "stop": "paused"},
    ]
    with fake(PROGRAM, turns) as url:
        api = client(url)

        def ask(messages, **more):
            more = {"model": "a-model", "max_tokens": 100, "messages": messages, **more}
            if not streamed:
                return api.messages.create(**more)
            with api.messages.stream(**more) as stream:
                return stream.get_final_message()

        def text(message):
            return "".join(block.text for block in message.content if block.type == "text")

        message = ask(HI)
        usage = message.usage
        assert (text(message), message.stop_reason) == ("Hello, ünï", "end_turn")
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (20, 30, 7)
        first = ask(HI, tools=TOOLS)
        calls = [(block.id, block.name, block.input) for block in first.content if block.type == "tool_use"]
        assert calls == [(call["id"], call["name"], json.loads(call["arguments"])) for call in CALLS], calls
        assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert first.stop_reason == "tool_use"
        results = [{"type": "tool_result", "tool_use_id": id, "content": "done"} for id, _, _ in calls]
        said = [block.model_dump(exclude_none=True) for block in first.content]
        for block in said:
            block.pop("caller", None)
        done = ask([*HI, {"role": "assistant", "content": said}, {"role": "user", "content": results}], tools=TOOLS)
        assert text(done) == "Done."
        form = {"format": {"type": "json_schema", "schema": ANSWER}}
        assert json.loads(text(ask(HI, output_config=form))) == {"answer": 42}
        for stop, expected in (("No.", "refusal"), ("Half", "max_tokens"), ("Wait", "pause_turn")):
            message = ask(HI)
            assert (text(message), message.stop_reason) == (stop, expected)

    faults = [
        {"fault": "throttled", "retry_after": "7"},
        {"fault": "unauthorized"},
        {"fault": "too_long"},
        {"fault": "overloaded"},
        {"fault": "broken"},
        {"text": "a long text that is cut", "cut": 3},
    ]
    with fake(PROGRAM, faults) as url:
        api = client(url)

        def once():
            answer = api.messages.create(model="a-model", max_tokens=100, messages=HI, stream=streamed)
            return list(answer) if streamed else answer

        assert refused(anthropic.RateLimitError, once).response.headers["retry-after"] == "7"
        refused(anthropic.AuthenticationError, once)
        assert "too long" in refused(anthropic.BadRequestError, once).message
        assert refused(anthropic.InternalServerError, once).status_code == 529
        refused(anthropic.InternalServerError, once)
        refused(Exception, once)
        unanswered = [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "read", "input": {}}]}]
        refused(
            anthropic.BadRequestError,
            lambda: api.messages.create(model="a-model", max_tokens=1, messages=[*HI, *unanswered]),
        )


for streamed in (False, True):
    visit(streamed)
    print(f"    Messages, {'streamed' if streamed else 'whole'}: accepted")
