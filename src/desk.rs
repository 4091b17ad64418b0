//! What pages read: logins, and the cards at an address as they are stored.

use async_trait::async_trait;
use sayso_channel::{Address, Desk, DeskError, Item, ItemView, Remark, Visitor};

use crate::broadcaster::ATTENDANCE;
use crate::broadcaster::cards::{View, draw};
use crate::clock::Timestamp;
use crate::ids::{BindingId, DeliveryId, PrincipalId};
use crate::lifecycle::Lifecycle;
use crate::requests::Request;
use crate::secrets;
use crate::store::deliveries::Delivery;
use crate::store::{self, Store, StoreError, Tx, Write, audit};
use crate::wakeups::Wakeups;
use crate::wording;

/// The gateway's side of the pages of one channel.
#[derive(Clone)]
pub struct Pages {
    /// The database.
    pub store: Store,
    /// Hints.
    pub wakeups: Wakeups,
    /// The life of the process.
    pub lifecycle: Lifecycle,
    /// The channel's name.
    pub channel: &'static str,
    /// The platforms besides, whose troubles are shown.
    pub platforms: Vec<&'static str>,
    /// UTF-16 code units of exact text that its cards show at once.
    pub exact_units: usize,
}

fn failed(error: StoreError) -> DeskError {
    let cause = &error as &dyn std::error::Error;
    tracing::error!(error = cause, "A page could not be read");
    DeskError
}

impl Pages {
    async fn items(&self, tx: &mut Tx, found: Vec<Delivery>) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::with_capacity(found.len());
        for delivery in found {
            if let Some(request) = store::requests::find(tx, delivery.request).await? {
                items.push(self.draw(&delivery, &request));
            }
        }
        Ok(items)
    }

    fn draw(&self, delivery: &Delivery, request: &Request) -> Item {
        let is_opened = delivery.opened_at.is_some();
        let view = View { exact_units: self.exact_units, is_opened };
        Item {
            message: delivery.id.to_string(),
            at: request.created_at.to_system(),
            ended_at: request.outcome.as_ref().map(|outcome| outcome.at.to_system()),
            card: draw(request, view).card,
        }
    }

    async fn ended_before(
        &self,
        tx: &mut Tx,
        at: &Address,
        before: Option<&str>,
    ) -> Result<Timestamp, StoreError> {
        let Some(message) = before else { return Ok(Timestamp::from_micros(i64::MAX)) };
        let card = store::requests::find_by_message(tx, self.channel, &at.0, message).await?;
        let ended = card.and_then(|request| request.outcome.map(|outcome| outcome.at));
        Ok(ended.unwrap_or(Timestamp::from_micros(i64::MAX)))
    }
}

struct LogIn {
    link_hash: String,
    session_hash: String,
    form_key: String,
}

#[async_trait]
impl Write for LogIn {
    type Out = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let Some(principal) = store::logins::use_link(tx, &self.link_hash).await? else {
            return Ok(false);
        };
        store::logins::insert(tx, &self.session_hash, principal, &self.form_key).await?;
        let name = store::people::find(tx, principal).await?.map(|p| p.name);
        let event =
            audit::Event { kind: "console.login", actor: name.as_deref(), ..Default::default() };
        audit::insert(tx, &event);
        Ok(true)
    }
}

struct LogOut(String);

#[async_trait]
impl Write for LogOut {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::logins::end(tx, &self.0).await
    }
}

/// Notes that somebody looks at pages, and at which cards.
struct Look {
    principal: PrincipalId,
    name: String,
    binding: BindingId,
    channel: &'static str,
    unseen: Vec<(DeliveryId, Request)>,
}

#[async_trait]
impl Write for Look {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::logins::touch(tx, self.principal).await?;
        store::people::touch(tx, self.binding).await?;
        store::deliveries::revive(tx, self.binding).await?;
        for (delivery, request) in &self.unseen {
            if !store::deliveries::mark_seen(tx, *delivery).await? {
                continue;
            }
            let event = audit::Event {
                kind: "delivery.seen",
                request: Some(request.id),
                agent: Some(request.agent),
                actor: Some(&self.name),
                channel: Some(self.channel),
                ..audit::Event::default()
            };
            audit::insert(tx, &event);
        }
        Ok(())
    }
}

/// A note about presence is written at most this often, unless there is a card
/// that was not seen yet.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// How long a page waits for a change before it says again that it is there.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

#[async_trait]
impl Desk for Pages {
    async fn log_in(&self, link: &str) -> Result<Option<String>, DeskError> {
        let session = secrets::token();
        let log_in = LogIn {
            link_hash: secrets::hash(link),
            session_hash: secrets::hash(&session),
            form_key: secrets::token(),
        };
        let is_in = self.store.write(log_in).await.map_err(failed)?;
        Ok(is_in.then_some(session))
    }

    async fn visitor(&self, session: &str) -> Result<Option<Visitor>, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let Some((id, form_key)) =
                store::logins::find(&mut tx, &secrets::hash(session)).await?
            else {
                return Ok(None);
            };
            let Some(person) = store::people::find(&mut tx, id).await? else { return Ok(None) };
            let bindings = store::people::bindings_of(&mut tx, id).await?;
            let address = bindings
                .into_iter()
                .find(|binding| binding.channel == self.channel)
                .and_then(|binding| binding.address);
            Ok(address.map(|address| Visitor {
                account: id.to_string(),
                name: person.name,
                address: Address(address),
                form_key,
            }))
        };
        read.await.map_err(failed)
    }

    async fn log_out(&self, session: &str) -> Result<(), DeskError> {
        self.store.write(LogOut(secrets::hash(session))).await.map_err(failed)
    }

    async fn present(&self, visitor: &Visitor) -> Result<(), DeskError> {
        let look = async {
            let mut tx = self.store.read().await?;
            let binding =
                store::people::find_binding(&mut tx, self.channel, "", &visitor.account).await?;
            let Some(binding) = binding else { return Ok(None) };
            let (waiting, _) =
                store::deliveries::list_waiting(&mut tx, self.channel, &visitor.address.0, 50)
                    .await?;
            let mut unseen = Vec::new();
            for delivery in waiting.into_iter().filter(|d| d.seen_at.is_none()) {
                if let Some(request) = store::requests::find(&mut tx, delivery.request).await? {
                    unseen.push((delivery.id, request));
                }
            }
            let now = tx.now();
            let is_fresh = binding.last_seen_at.is_some_and(|at| now.since(at) < LOOK_EVERY);
            if is_fresh && unseen.is_empty() {
                return Ok(None);
            }
            Ok::<_, StoreError>(Some(Look {
                principal: binding.principal,
                name: visitor.name.clone(),
                binding: binding.id,
                channel: self.channel,
                unseen,
            }))
        };
        if let Some(look) = look.await.map_err(failed)? {
            self.store.write(look).await.map_err(failed)?;
            self.wakeups.news();
        }
        Ok(())
    }

    async fn is_attended(&self, at: &Address) -> Result<bool, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let since = tx.now().minus(ATTENDANCE);
            store::people::was_seen_at(&mut tx, self.channel, &at.0, since).await
        };
        read.await.map_err(failed)
    }

    async fn reply(&self, visitor: &Visitor, accepted: &str) -> Result<Option<String>, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            store::inbox::reply_in_lane(&mut tx, accepted, &visitor.address.0).await
        };
        read.await.map_err(failed)
    }

    async fn troubles(&self) -> Result<Vec<String>, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let now = tx.now();
            let readers = store::readers::list(&mut tx).await?;
            let readers = readers.iter().filter(|r| self.platforms.contains(&r.channel.as_str()));
            Ok(readers
                .filter_map(|r| Some(wording::platform_trouble(&r.channel, &r.trouble_at(now)?)))
                .collect())
        };
        read.await.map_err(failed)
    }

    async fn waiting(&self, at: &Address, limit: u32) -> Result<(Vec<Item>, u64), DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let (found, count) =
                store::deliveries::list_waiting(&mut tx, self.channel, &at.0, i64::from(limit))
                    .await?;
            let items = self.items(&mut tx, found).await?;
            Ok((items, u64::try_from(count).unwrap_or(0)))
        };
        read.await.map_err(failed)
    }

    async fn ended(
        &self,
        at: &Address,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Item>, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let before = self.ended_before(&mut tx, at, before).await?;
            let limit = i64::from(limit);
            let found =
                store::deliveries::list_ended(&mut tx, self.channel, &at.0, before, limit).await?;
            self.items(&mut tx, found).await
        };
        read.await.map_err(failed)
    }

    async fn item(&self, at: &Address, message: &str) -> Result<Option<ItemView>, DeskError> {
        let read = async {
            let mut tx = self.store.read().await?;
            let found = store::deliveries::find_at(&mut tx, self.channel, &at.0, message).await?;
            let Some(delivery) = found else { return Ok(None) };
            let Some(request) = store::requests::find(&mut tx, delivery.request).await? else {
                return Ok(None);
            };
            let trail = audit::story(&mut tx, request.id)
                .await?
                .iter()
                .filter_map(|line| {
                    let at = Timestamp::from_micros(line.at).to_system();
                    wording::trail(line).map(|text| Remark { at, text })
                })
                .collect();
            Ok(Some(ItemView { item: self.draw(&delivery, &request), trail }))
        };
        read.await.map_err(failed)
    }

    async fn changed(&self, _at: &Address, seen: Option<u64>) -> Option<u64> {
        let mut anything = self.wakeups.anything();
        let Some(seen) = seen else { return Some(*anything.borrow()) };
        tokio::select! {
            changed = anything.wait_for(|now| *now != seen) => changed.ok().map(|now| *now),
            () = tokio::time::sleep(PATIENCE) => Some(seen),
            () = self.lifecycle.stopping() => None,
        }
    }
}
