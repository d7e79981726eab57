"""OpenAI's own SDK as a client of the fake provider: `openai_sdk.py PROGRAM`. Whatever the fake says, the SDK has to accept."""

import json
import sys

import openai
from fake import ANSWER, CALLS, LIST, READ, USAGE, fake

PROGRAM = sys.argv[1]
MODEL = "a-model"


def client(url):
    # What does not have the documented form is an error, and not an object with fields missing.
    return openai.OpenAI(base_url=f"{url}/v1", api_key="a-key", max_retries=0, _strict_response_validation=True)


def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return error
    raise AssertionError(f"there was no {kind}")


class Chat:
    tools = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": schema, "strict": True}}
        for name, schema in (("read", READ), ("list", LIST))
    ]

    @staticmethod
    def ask(api, messages, streamed, **more):
        if not streamed:
            return api.chat.completions.create(model=MODEL, messages=messages, **more)
        chunks = api.chat.completions.create(
            model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}, **more
        )
        assert len(list(chunks)) > 3
        # The same turn again, put together by the SDK.
        with api.chat.completions.stream(
            model=MODEL, messages=messages, stream_options={"include_usage": True}, **more
        ) as stream:
            return stream.get_final_completion()

    @staticmethod
    def read(completion):
        choice = completion.choices[0]
        calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        usage = completion.usage
        return {
            "text": choice.message.content or choice.message.refusal or "",
            "calls": calls,
            "stop": "refusal" if choice.message.refusal else choice.finish_reason,
            "usage": (usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens),
        }

    @staticmethod
    def answered(first):
        message = first.choices[0].message
        said = message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in message.tool_calls]
        return [{"role": "user", "content": "Hi"}, said, *results]

    output = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER, "strict": True}}
    }
    stops = {"complete": "stop", "calls": "tool_calls", "truncated": "length", "refused": "refusal"}


class Responses:
    tools = [
        {"type": "function", "name": name, "description": name, "parameters": schema, "strict": True}
        for name, schema in (("read", READ), ("list", LIST))
    ]

    @staticmethod
    def ask(api, messages, streamed, **more):
        if not streamed:
            return api.responses.create(model=MODEL, input=messages, store=False, **more)
        events = api.responses.create(model=MODEL, input=messages, store=False, stream=True, **more)
        kinds = [event.type for event in events]
        assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
        with api.responses.stream(model=MODEL, input=messages, store=False, **more) as stream:
            last = [event for event in stream][-1]
            return last.response

    @staticmethod
    def read(response):
        calls, text, stop = [], "", response.status
        for item in response.output:
            if item.type == "function_call":
                calls.append((item.call_id, item.name, item.arguments))
            elif item.type == "message":
                for part in item.content:
                    text += part.refusal if part.type == "refusal" else part.text
                    stop = "refusal" if part.type == "refusal" else stop
        usage = response.usage
        return {
            "text": text,
            "calls": calls,
            "stop": stop,
            "usage": (usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens),
        }

    @staticmethod
    def answered(first):
        said = [
            {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
            for item in first.output
            if item.type == "function_call"
        ]
        results = [{"type": "function_call_output", "call_id": item["call_id"], "output": "done"} for item in said]
        return [{"role": "user", "content": "Hi"}, *said, *results]

    output = {"text": {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True}}}
    stops = {"complete": "completed", "calls": "completed", "truncated": "incomplete", "refused": "refusal"}


def visit(api_kind, streamed):
    hi = [{"role": "user", "content": "Hi"}]
    turns = [
        {"text": "Hello, ünï", "usage": USAGE, "chunk": 3},
        {"text": "I look.", "thinking": "Hm.", "tool_calls": CALLS, "usage": USAGE},
        {"text": "Done.", "usage": USAGE},
        {"text": '{"answer": 42}', "usage": USAGE},
        {"text": "No.", "stop": "refused", "usage": USAGE},
        {"text": "Half", "stop": "truncated", "usage": USAGE},
    ]
    # Streams are taken twice, event by event and put together.
    turns = [turn for turn in turns for _ in range(2 if streamed else 1)]
    used = (50, 7, 30)
    with fake(PROGRAM, turns) as url:
        api = client(url)
        stops = api_kind.stops

        def ask(messages, **more):
            answer = api_kind.ask(api, messages, streamed, **more)
            return answer, api_kind.read(answer)

        _, said = ask(hi)
        assert said == {"text": "Hello, ünï", "calls": [], "stop": stops["complete"], "usage": used}, said
        first, said = ask(hi, tools=api_kind.tools)
        calls = [(call["id"], call["name"], call["arguments"]) for call in CALLS]
        assert said == {"text": "I look.", "calls": calls, "stop": stops["calls"], "usage": used}, said
        _, said = ask(api_kind.answered(first), tools=api_kind.tools)
        assert said["text"] == "Done.", said
        _, said = ask(hi, **api_kind.output)
        assert json.loads(said["text"]) == {"answer": 42}, said
        _, said = ask(hi)
        assert (said["text"], said["stop"]) == ("No.", stops["refused"]), said
        try:
            _, said = ask(hi)
            assert (said["text"], said["stop"]) == ("Half", stops["truncated"]), said
        except openai.LengthFinishReasonError:
            # The SDK's own way to tell of it when it puts a stream together.
            assert streamed and api_kind is Chat

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
            if api_kind is Chat:
                answer = api.chat.completions.create(model=MODEL, messages=hi, stream=streamed)
            else:
                answer = api.responses.create(model=MODEL, input=hi, stream=streamed)
            return list(answer) if streamed else answer

        error = refused(openai.RateLimitError, once)
        assert (error.code, error.response.headers["retry-after"]) == ("rate_limit_exceeded", "7")
        refused(openai.AuthenticationError, once)
        assert refused(openai.BadRequestError, once).code == "context_length_exceeded"
        assert refused(openai.InternalServerError, once).status_code == 503
        refused(openai.InternalServerError, once)
        refused(Exception, once)
        unknown = [{"role": "tool", "tool_call_id": "x", "content": "x"}]
        if api_kind is Responses:
            unknown = [{"type": "function_call_output", "call_id": "x", "output": "x"}]
        refused(openai.BadRequestError, lambda: api_kind.ask(api, unknown, False))


for api_kind in (Chat, Responses):
    for streamed in (False, True):
        visit(api_kind, streamed)
        print(f"    {api_kind.__name__}, {'streamed' if streamed else 'whole'}: accepted")
