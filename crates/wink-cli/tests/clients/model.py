"""A server on loopback that answers as a model would that follows the story: whole, or as a stream of events."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from story import FILES, STEPS, same

END = "That was all."


class Model:
    """How it says it is for those who inherit: `answer` gives an object, a list of events, or None for what it does not know."""

    def __init__(self, at):
        self.at = at
        self.unknown = []
        self.results = []
        self.files = {}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.say(model.answer(self.path, json.loads(body)))

            def do_HEAD(self):
                # Whether anybody is there.
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                self.say(None)

            def say(self, answer):
                if answer is None:
                    model.unknown.append(f"{self.command} {self.path}")
                status, kind, body = 200, "application/json", json.dumps(answer)
                if answer is None:
                    status, body = 404, "{}"
                elif isinstance(answer, list):
                    kind = "text/event-stream"
                    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in answer)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        # The system chooses the port.
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path, request):
        raise NotImplementedError

    def go_on(self, results):
        """The number of the next step and the step, or two times None. A request has the whole conversation: as many results as it
        has, so many steps are done."""
        self.results, done = results, len(results)
        self.files[done] = self.at.files()
        return (done, STEPS[done]) if done < len(STEPS) else (None, None)

    def check(self, results, call_ids):
        """That the model was told this, and that it and everything else came of the story."""
        same(self.unknown, [], "requests that the model does not understand")
        same(results, [(call_ids[number], step.answer) for number, step in enumerate(STEPS)], "what the model was told")
        same(list(self.files.values()), [{}, *FILES], "the files in the workspace at each step")
        # Such clients say which call it is, and that is what the log knows it by.
        self.at.check(call_ids)

    def __enter__(self):
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
