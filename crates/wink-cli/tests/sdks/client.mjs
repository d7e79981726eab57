// The official TypeScript SDK as a client of `wink serve`, with the agent in wink.toml: lists, calls, gets progress, answers
// questions, cancels.
//
//     node client.mjs stdio PROGRAM ARGUMENT...
//     node client.mjs http URL TOKEN
//
// Speaks both ways: with a handshake (2025-11-25) and without (2026-07-28). The SDK is looked for in $CLIENT_SDK.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const from = createRequire(`${process.env.CLIENT_SDK}/`);
const load = name => import(pathToFileURL(from.resolve(name)).href);
const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');

const [kind, ...rest] = process.argv.slice(2);

function transport() {
    if (kind === 'stdio') {
        const [command, ...args] = rest;
        return new StdioClientTransport({ command, args });
    }
    const [url, token] = rest;
    return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
}

// What the SDK says of schemas that it does not understand in full.
const complaints = [];
console.warn = message => complaints.push(message);

const text = result => result.content[0].text;

// What is in the workspace, and is all there is after calls that failed or were cancelled.
const files = [{ path: 'wink.toml', bytes: statSync(new URL('wink.toml', import.meta.url)).size }];

async function entries(client) {
    return (await client.callTool({ name: 'list_directory', arguments: {} })).structuredContent.entries;
}

async function log(client) {
    // Fresh, and not as it was a moment ago.
    const read = await client.readResource({ uri: 'wink://log' });
    return read.contents[0].text.split('\n').map(line => JSON.parse(line));
}

async function visit(mode, version) {
    let said = { action: 'accept', content: { approve: true } };
    let questions = 0;
    const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
    const client = new Client({ name: 'typescript', version: '1' }, options);
    client.setRequestHandler('elicitation/create', async () => {
        questions += 1;
        return said;
    });
    await client.connect(transport());

    const { tools } = await client.listTools();
    assert.deepEqual(complaints, [], 'every schema is understood');
    assert.equal(tools.find(tool => tool.name === 'greet').annotations.readOnlyHint, true);
    assert.equal(text(await client.callTool({ name: 'greet', arguments: { name: 'Ada' } })), 'Hello, Ada!');
    assert.deepEqual(await entries(client), files);

    const failed = await client.callTool({ name: 'fail', arguments: {} });
    assert.equal(failed.isError, true);
    assert.match(text(failed), /^fail exited with 3\./);
    assert.deepEqual(await entries(client), files);
    const rejected = await client.callTool({ name: 'greet', arguments: { nam: 1 } });
    assert.equal(rejected.isError, true);
    await assert.rejects(client.callTool({ name: 'gret', arguments: {} }), /Did you mean 'greet'\?/);

    const told = [];
    const onprogress = ({ progress, total }) => told.push([progress, total]);
    assert.equal(text(await client.callTool({ name: 'wait', arguments: { seconds: 2.5 } }, { onprogress })), 'waited');
    assert.deepEqual(told.slice(0, 2), [[1, undefined], [2, undefined]]);

    assert.equal(text(await client.callTool({ name: 'deploy', arguments: {} })), 'deployed');
    assert.equal(questions, 1);
    said = { action: 'decline' };
    const denied = await client.callTool({ name: 'deploy', arguments: {} });
    assert.match(text(denied), /was not approved/);

    const stop = new AbortController();
    const slow = client.callTool({ name: 'wait', arguments: { seconds: 600 } }, { signal: stop.signal });
    setTimeout(() => stop.abort('enough'), 500);
    await assert.rejects(slow);
    let last;
    do {
        last = (await log(client)).at(-1);
    } while (last.tool !== 'wait');
    assert.equal(last.error.kind, 'cancelled');
    assert.deepEqual(await entries(client), files);
    await client.close();
    console.log(`    ${kind}, ${version}: ok`);
}

await visit('legacy', '2025-11-25');
await visit({ pin: '2026-07-28' }, '2026-07-28');
