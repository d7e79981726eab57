"""The official Python SDK against our server: lists, calls, gets progress, answers questions, cancels.

    client.py stdio PROGRAM ARGUMENT...
    client.py http URL TOKEN

Speaks both ways: with a handshake (2025-11-25) and without (2026-07-28).
"""

import json
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def server(kind, rest):
    if kind == "stdio":
        return StdioServerParameters(command=rest[0], args=rest[1:])
    url, token = rest
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return streamable_http_client(url, http_client=client)


def text(result):
    return result.content[0].text


async def log(client):
    read = await client.read_resource("wink://log")
    return [json.loads(line) for line in read.contents[0].text.splitlines()]


async def visit(kind, rest, mode):
    said = {"action": "accept", "content": {"approve": True}}
    questions = []

    async def asked(_context, params):
        questions.append(params.message)
        return types.ElicitResult(**said)

    async with Client(server(kind, rest), mode=mode, elicitation_callback=asked) as client:
        assert client.protocol_version == VERSIONS[mode], client.protocol_version
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["greet"].annotations.read_only_hint is True, tools["greet"]
        assert text(await client.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
        structured = await client.call_tool("test_image_content", {})
        assert structured.structured_content["parts"][0]["kind"] == "picture", structured

        failed = await client.call_tool("test_error_handling", {})
        assert failed.is_error and text(failed).startswith("This tool intentionally"), failed
        rejected = await client.call_tool("greet", {"nam": 1})
        assert rejected.is_error and "name" in text(rejected), rejected
        try:
            await client.call_tool("gret", {"name": "Ada"})
            raise AssertionError("there is no such tool")
        except MCPError as error:
            assert error.error.code == -32602 and "Did you mean 'greet'?" in error.error.message, error

        told = []

        async def progress(done, total, _message):
            told.append((done, total))

        await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
        assert told == [(0, 100), (50, 100), (100, 100)], told

        assert text(await client.call_tool("test_streaming_elicitation", {})) == "done"
        assert len(questions) == 1, questions
        said = {"action": "decline"}
        denied = await client.call_tool("test_streaming_elicitation", {})
        assert denied.is_error and "was not approved" in text(denied), denied

        with anyio.move_on_after(0.5):
            await client.call_tool("slow_compute", {"seconds": 60, "label": f"{kind} {mode}"})
            raise AssertionError("it takes longer than that")
        with anyio.fail_after(10):
            while (last := (await log(client))[-1])["tool"] != "slow_compute":
                await anyio.sleep(0.05)
        assert last["ending"] == "cancelled", last
        prompt = (await client.list_prompts()).prompts[0]
        assert (await client.get_prompt(prompt.name)).messages, prompt


async def main():
    kind, *rest = sys.argv[1:]
    for mode in VERSIONS:
        await visit(kind, rest, mode)
        print(f"    {kind}, {VERSIONS[mode]}: ok")


anyio.run(main)
