//! Many sessions of one server at a time, each with a client of its own that has shaken hands and listens.

use std::time::Instant;

use rmcp::ClientLifecycleMode;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::process::Server;
use super::{Client, Keeps, Who, call, request, runtime};
use crate::cases::program::{READ, SET_UP, plan};
use crate::cases::{Contender, Order, Over, Row};
use crate::measure::{Effort, Figures, Memory, timed};

/// How many sessions there are: about as many as `wink serve` has at a time.
const SESSIONS: usize = 1_000;

/// Everybody's clients, in turns: first one call after the other, then all of them at once.
pub(crate) fn measure(rows: &[Row], effort: Effort) -> Vec<(Row, Vec<(Contender, Figures)>)> {
    if rows.is_empty() {
        return Vec::new();
    }
    let (sessions, rounds) = match effort {
        Effort::Full => (SESSIONS, 10),
        Effort::Few => (4, 1),
    };
    let runtime = runtime();
    let who = [(Contender::Wink, Who::Wink), (Contender::Rmcp, Who::Rmcp(Keeps::Nothing))];
    let crowds: Vec<(Contender, Crowd)> =
        who.into_iter().map(|(contender, who)| (contender, Crowd::gather(&runtime, who, sessions))).collect();
    rows.iter()
        .filter_map(|row| match row {
            Row::McpSessions(order) => Some((*row, *order)),
            _ => None,
        })
        .map(|(row, order)| {
            let mut taken = vec![Vec::new(); crowds.len()];
            // One round that is not timed: connections that were idle may have ended.
            for round in 0..=rounds {
                for ((_, crowd), taken) in crowds.iter().zip(&mut taken) {
                    let ns = runtime.block_on(crowd.round(order));
                    if round > 0 {
                        taken.extend(ns);
                    }
                }
            }
            let figures = crowds.iter().zip(taken).map(|((contender, crowd), taken)| {
                let figures =
                    Figures { ns: Some(timed(taken)), memory: crowd.memory(), ..Figures::default() };
                (*contender, figures)
            });
            (row, figures.collect())
        })
        .collect()
}

/// A server with its clients.
struct Crowd {
    clients: Vec<Client>,
    server: Server,
    /// What the server took with no session, and with all of them, before they called.
    empty: Option<u64>,
    full: Option<u64>,
}

impl Crowd {
    fn gather(runtime: &Runtime, who: Who, sessions: usize) -> Self {
        let mut server = Server::start(runtime, who, Over::Http);
        let empty = server.memory("VmRSS");
        let clients = runtime.block_on(async {
            let mut clients = Vec::with_capacity(sessions);
            for number in 0..sessions {
                let name = format!("session_{number}");
                let client = server.connect(&name, ClientLifecycleMode::Initialize).await;
                call(&client, SET_UP, plan()).await;
                clients.push(client);
            }
            clients
        });
        let full = server.memory("VmRSS");
        Self { clients, server, empty, full }
    }

    /// Every client calls once. How long each waited for its answer, in nanoseconds.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
    async fn round(&self, order: Order) -> Vec<f64> {
        let nothing = || Value::Object(Default::default());
        let mut taken = Vec::with_capacity(self.clients.len());
        match order {
            Order::Turns => {
                for client in &self.clients {
                    let start = Instant::now();
                    call(client, READ, nothing()).await;
                    taken.push(start.elapsed().as_nanos() as f64);
                }
            }
            Order::AtOnce => {
                let start = Instant::now();
                let mut calls = JoinSet::new();
                for client in &self.clients {
                    let peer = client.peer().clone();
                    calls.spawn(async move {
                        let answer = peer.call_tool_once(request(READ, nothing())).await;
                        assert!(answer.is_ok(), "{answer:?}");
                        start.elapsed()
                    });
                }
                for waited in calls.join_all().await {
                    taken.push(waited.as_nanos() as f64);
                }
            }
        }
        taken
    }

    fn memory(&self) -> Option<Memory> {
        let (resident, sessions) = (self.full?, u64::try_from(self.clients.len()).ok()?);
        let of_each = resident.saturating_sub(self.empty?) / sessions.max(1);
        Some(Memory { resident, peak: self.server.memory("VmHWM")?, of_each })
    }
}
