//! People, an agent, requests and what is done to them, without a running
//! gateway: every step is one transaction of the real code.

use std::time::Duration;

use sayso::admin::{AddAgent, AddGuardian};
use sayso::api::requests::Open;
use sayso::broadcaster::{Broadcast, Outlet};
use sayso::decisions::{
    Actor, Deadline, Means, NewRequest, OpenError, Opened, Opening, Policy, Ruling, Verdict,
};
use sayso::ids::{InboxId, RequestId};
use sayso::jobs::intake::Accept;
use sayso::jobs::sweep::Expire;
use sayso::people::{Agent, Principal};
use sayso::requests::{Choice, Content, Kind, Request, Risk, Tool};
use sayso::router::{Arrival, Route, Routed};
use sayso::store::inbox::Item;
use sayso::store::requests::IdempotencyKey;
use sayso::store::{self, Store, StoreError, Tx, Write};
use sayso_channel::{Account, Event, Inbound, Place, Privacy};
use serde_json::json;

use crate::support::Database;
use crate::support::database::Fresh;

/// The channel on which people of the world live.
pub(crate) const CHANNEL: &str = "console";

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) fresh: Fresh,
    pub(crate) policy: Policy,
    pub(crate) agent: Agent,
    pub(crate) ada: Principal,
    pub(crate) bob: Principal,
}

/// One deciding attempt.
pub(crate) struct Decide(pub(crate) Actor, pub(crate) sayso::decisions::Attempt, pub(crate) Policy);

#[async_trait::async_trait]
impl Write for Decide {
    type Out = Ruling;

    fn reads(&self) -> Option<RequestId> {
        Some(self.1.request)
    }

    async fn run(&self, tx: &mut Tx) -> Result<Ruling, StoreError> {
        sayso::decisions::decide(tx, &self.0, &self.1, self.2).await
    }
}

struct ClaimJobs;

#[async_trait::async_trait]
impl Write for ClaimJobs {
    type Out = Vec<store::jobs::Job>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        store::jobs::claim_due(tx, store::jobs::BROADCAST, 100).await
    }
}

impl World {
    /// A world with the guardians Ada and Bob and one agent whose guardian is
    /// Ada; nothing when this kind of database can't be had.
    pub(crate) async fn new(database: Database) -> Option<Self> {
        let fresh = database.fresh().await?;
        let store = fresh.open().await;
        let ada = store.write(AddGuardian { name: "ada".into() }).await.unwrap().unwrap();
        let bob = store.write(AddGuardian { name: "bob".into() }).await.unwrap().unwrap();
        let add = AddAgent { name: "robot".into(), guardian: Some("ada".into()) };
        let agent = store.write(add).await.unwrap().unwrap().agent;
        Some(Self { store, fresh, policy: Policy::default(), agent, ada, bob })
    }

    /// A tool call that wants approval.
    pub(crate) fn tool_call(command: &str) -> NewRequest {
        let content = Content {
            kind: Kind::ToolApproval,
            title: None,
            body: None,
            tool: Some(Tool { name: "shell".into(), input: json!({ "command": command }) }),
            options: Vec::new(),
            allow_text: false,
        };
        Self::new_request(content)
    }

    /// A question, open or with options.
    pub(crate) fn question(title: &str, options: &[&str]) -> NewRequest {
        let content = Content {
            kind: Kind::Question,
            title: Some(title.into()),
            body: None,
            tool: None,
            options: options
                .iter()
                .enumerate()
                .map(|(i, label)| Choice { id: format!("o{i}"), label: (*label).into() })
                .collect(),
            allow_text: options.is_empty(),
        };
        Self::new_request(content)
    }

    /// Somebody wants to be let in.
    pub(crate) fn access(title: &str) -> NewRequest {
        let content = Content {
            kind: Kind::AccessRequest,
            title: Some(title.into()),
            body: None,
            tool: None,
            options: Vec::new(),
            allow_text: false,
        };
        Self::new_request(content)
    }

    fn new_request(content: Content) -> NewRequest {
        NewRequest {
            content,
            session: None,
            run: None,
            guardian: None,
            risk: Risk::Medium,
            deadline: None,
            callback_url: None,
            supersedes: None,
            metadata: json!({}),
        }
    }

    /// Tries to open a request.
    pub(crate) async fn try_open(
        &self,
        new: NewRequest,
        key: Option<(&str, &str)>,
    ) -> Result<Opened, OpenError> {
        let idempotency =
            key.map(|(key, hash)| IdempotencyKey { key: key.into(), body_hash: hash.into() });
        let opening = Opening { agent: self.agent.clone(), new, idempotency };
        self.store.write(Open { opening, policy: self.policy }).await.unwrap()
    }

    /// Opens a request and puts its card up.
    pub(crate) async fn open(&self, new: NewRequest) -> Request {
        let request = self.try_open(new, None).await.unwrap().into_request();
        self.broadcast().await;
        request
    }

    /// Puts up every card that is owed.
    pub(crate) async fn broadcast(&self) {
        for job in self.store.write(ClaimJobs).await.unwrap() {
            let outlets = vec![Outlet { channel: CHANNEL.into(), exact_units: 4_000 }];
            self.store.write(Broadcast { job, outlets }).await.unwrap();
        }
    }

    /// The request as it stands.
    pub(crate) async fn get(&self, request: &Request) -> Request {
        let mut tx = self.store.read().await.unwrap();
        store::requests::find(&mut tx, request.id).await.unwrap().unwrap()
    }

    /// The message under which the request's card stands.
    pub(crate) async fn message(&self, request: &Request) -> String {
        let mut tx = self.store.read().await.unwrap();
        let cards = store::deliveries::list_of(&mut tx, request.id).await.unwrap();
        cards[0].id.to_string()
    }

    /// Decides at the keyboard.
    pub(crate) async fn decide(
        &self,
        by: &Principal,
        request: &Request,
        verdict: Verdict,
    ) -> Ruling {
        let actor =
            Actor { principal: by.id, name: by.name.clone(), binding: None, channel: "cli".into() };
        let attempt = sayso::decisions::Attempt {
            request: request.id,
            revision: Some(request.revision),
            verdict,
            means: Means::Keyboard,
        };
        self.store.write(Decide(actor, attempt, self.policy)).await.unwrap()
    }

    /// Somebody does something in their console conversation.
    pub(crate) async fn does(&self, who: &Principal, event: Event) -> Routed {
        let account = Account { realm: String::new(), id: who.id.to_string(), is_automated: false };
        self.happens(account, &who.id.to_string(), event).await
    }

    /// Something happens, whoever did it.
    pub(crate) async fn happens(&self, actor: Account, address: &str, event: Event) -> Routed {
        let place = Place { address: address.into(), privacy: Privacy::Private };
        let item = Item {
            id: InboxId::new(),
            channel: CHANNEL.into(),
            receiver: String::new(),
            dedup_key: InboxId::new().to_string(),
            lane: address.into(),
            raw: Vec::new(),
            attempts: 0,
        };
        let id = item.id;
        self.store.write(Accept { item, hold: true }).await.unwrap();
        let inbound = Inbound { actor, place, event };
        let (channel, policy) = (CHANNEL.to_owned(), self.policy);
        let route = Route { arrival: Arrival::Stored(id), channel, inbound, policy, speaks: false };
        self.store.write(route).await.unwrap()
    }

    /// Somebody writes.
    pub(crate) async fn says(&self, who: &Principal, text: &str) -> Routed {
        let event = Event::Text { text: text.into(), reply_to: None, is_secondhand: false };
        self.does(who, event).await
    }

    /// Somebody presses a button of a request's card.
    pub(crate) async fn taps(&self, who: &Principal, request: &Request, action: &str) -> Routed {
        let token = format!("apr:{}:{action}", request.id).parse().unwrap();
        let message = Some(self.message(request).await);
        self.does(who, Event::Tap { token, message, text: None }).await
    }

    /// Time passes, and deadlines are looked at.
    pub(crate) async fn let_pass(&self, span: Duration) {
        self.store.clock().advance(span);
        self.store.write(Expire).await.unwrap();
    }

    /// The kinds of everything that happened to a request, in order.
    pub(crate) async fn story(&self, request: &Request) -> Vec<String> {
        let mut tx = self.store.read().await.unwrap();
        let lines = store::audit::story(&mut tx, request.id).await.unwrap();
        lines.into_iter().map(|line| line.kind).collect()
    }
}

/// A deadline so far away.
pub(crate) fn within(span: Duration) -> Deadline {
    Deadline::In(span)
}
