//! LiteLLM's proxy between our providers and the fake one, with each of the fake's wire formats behind it: conversations come to the
//! session that a scripted model comes to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::BoxFuture;
use wink_fake::Fake;
use wink_models::providers::{Endpoint, Streaming, openai};
use wink_models::testing::{Arguments, LeftOut, Running, Script, Setup, Subject, Texts, adapter_contract};
use wink_models::{Adapter, ModelAdapter};

/// LiteLLM refuses short ones.
const KEY: &str = "sk-a-key-of-the-proxy-0123456789abcdef";

/// The proxy, until it is dropped.
struct Proxy {
    child: Child,
    url: String,
    fake: Arc<Fake>,
    _directory: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    async fn start(program: &str) -> Self {
        let fake = Arc::new(Fake::start(wink_fake::Script::default()).await.unwrap());
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.yaml");
        std::fs::write(&config, config_for(&fake.url())).unwrap();
        // Free now, and still so in a moment, unless somebody is very quick.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut child = Command::new(program)
            .arg("--config")
            .arg(&config)
            .args(["--host", "127.0.0.1", "--port", &port, "--telemetry", "False"])
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        // Read to the end: whoever is not listened to stops at a full pipe.
        std::thread::spawn(move || {
            let (mut ready, mut all) = (Some(ready), String::new());
            for line in said.lines().map_while(Result::ok) {
                if line.contains("Application startup complete") {
                    let _ = ready.take().map(|ready| ready.send(Ok(())));
                }
                if ready.is_some() {
                    all.push_str(&line);
                    all.push('\n');
                }
            }
            let _ = ready.take().map(|ready| ready.send(Err(all)));
        });
        let url = format!("http://127.0.0.1:{port}");
        let proxy = Self { child, url, fake, _directory: directory };
        if let Err(said) = is_ready.await.unwrap() {
            panic!("LiteLLM did not start:\n{said}");
        }
        proxy
    }
}

fn config_for(fake: &str) -> String {
    format!(
        "model_list:
  - model_name: \"openai/*\"
    litellm_params: {{ model: \"openai/*\", api_base: {fake}/v1, api_key: upstream-key }}
  - model_name: \"anthropic/*\"
    litellm_params: {{ model: \"anthropic/*\", api_base: {fake}, api_key: upstream-key }}
general_settings: {{ master_key: {KEY} }}
litellm_settings: {{ num_retries: 0, request_timeout: 600 }}
router_settings: {{ num_retries: 0, disable_cooldowns: true }}
"
    )
}

/// Chat Completions at the proxy.
struct Proxied<'p> {
    proxy: &'p Proxy,
    upstream: &'static str,
    streaming: Streaming,
    /// Each conversation is with a model of its own.
    models: AtomicUsize,
}

impl Subject for Proxied<'_> {
    fn name(&self) -> String {
        format!("LiteLLM {} {:?}", self.upstream, self.streaming)
    }

    fn arguments(&self) -> Arguments {
        match (self.upstream, self.streaming) {
            // It has them as JSON there, and writes that in its own way.
            ("anthropic", Streaming::Off) => Arguments::Rewritten,
            _ => Arguments::AsWritten,
        }
    }

    fn texts(&self) -> Texts {
        match self.streaming {
            Streaming::On => Texts::InPieces,
            Streaming::Off => Texts::AtOnce,
        }
    }

    fn leaves_out(&self) -> &[LeftOut] {
        match (self.upstream, self.streaming) {
            ("openai", Streaming::On) => {
                &[LeftOut { scenario: "a refusal", why: "LiteLLM's streams do not say that there was one" }]
            }
            _ => &[],
        }
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        let fake = &self.proxy.fake;
        let model = format!("model-{}", self.models.fetch_add(1, Ordering::SeqCst));
        fake.follow(&model, wink_fake::Script::parse(&script.to_json_lines()).unwrap());
        let endpoint = Endpoint::new(format!("{}/v1", self.proxy.url)).key(KEY.to_owned());
        let model = openai::Chat::new(format!("{}/{model}", self.upstream))
            .at(endpoint.streaming(self.streaming))
            .unwrap();
        let started = Started { fake: Arc::clone(fake), adapter: setup.adapter(Arc::new(model)) };
        Box::pin(std::future::ready(Box::new(started) as Box<dyn Running>))
    }
}

struct Started {
    fake: Arc<Fake>,
    adapter: ModelAdapter,
}

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.adapter
    }

    fn complaints(&self) -> Vec<String> {
        self.fake.seen().into_iter().filter_map(|seen| seen.refused).collect()
    }
}

// case 211
#[tokio::test]
#[ignore = "needs LiteLLM; `./test clients` runs it"]
async fn conversations_through_litellm() {
    let program = std::env::var("WINK_LITELLM").unwrap_or_else(|_| "litellm".to_owned());
    let proxy = Proxy::start(&program).await;
    for upstream in ["openai", "anthropic"] {
        for streaming in [Streaming::On, Streaming::Off] {
            let models = AtomicUsize::new(0);
            adapter_contract(&Proxied { proxy: &proxy, upstream, streaming, models }).await;
        }
    }
}
