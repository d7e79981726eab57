"""The official Python SDK as a client of `wink serve`, with the agent in wink.toml: lists, calls, gets progress, answers questions, cancels.

    client.py stdio PROGRAM ARGUMENT...
    client.py http URL TOKEN

Speaks both ways: with a handshake (2025-11-25) and without (2026-07-28).
"""

import json
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

# What is in the workspace, and is all there is after calls that failed or were cancelled.
FILES = [{"path": "wink.toml", "bytes": Path(__file__).with_name("wink.toml").stat().st_size}]
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
        structured = await client.call_tool("list_directory", {})
        assert structured.structured_content["entries"] == FILES, structured

        failed = await client.call_tool("fail", {})
        assert failed.is_error and text(failed).startswith("fail exited with 3."), failed
        assert (await client.call_tool("list_directory", {})).structured_content["entries"] == FILES
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

        waited = await client.call_tool("wait", {"seconds": 2.5}, progress_callback=progress)
        assert text(waited) == "waited" and told[:2] == [(1, None), (2, None)], (waited, told)

        assert text(await client.call_tool("deploy", {})) == "deployed"
        assert len(questions) == 1 and "deploy" in questions[0], questions
        said = {"action": "decline"}
        denied = await client.call_tool("deploy", {})
        assert denied.is_error and "was not approved" in text(denied), denied

        with anyio.move_on_after(0.5):
            await client.call_tool("wait", {"seconds": 600})
            raise AssertionError("it takes longer than that")
        with anyio.fail_after(10):
            while (last := (await log(client))[-1])["tool"] != "wait":
                await anyio.sleep(0.05)
        assert last["error"]["kind"] == "cancelled" and last["rolled_back"], last
        assert (await client.call_tool("list_directory", {})).structured_content["entries"] == FILES
        prompt = (await client.list_prompts()).prompts[0]
        assert (await client.get_prompt(prompt.name)).messages, prompt


async def main():
    kind, *rest = sys.argv[1:]
    for mode in VERSIONS:
        await visit(kind, rest, mode)
        print(f"    {kind}, {VERSIONS[mode]}: ok")


anyio.run(main)
