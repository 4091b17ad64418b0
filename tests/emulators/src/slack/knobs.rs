//! What a test may set: spans, switches, and how deliveries and connections
//! misbehave.

use std::time::Duration;

use serde_json::Value;

use crate::slack::Workspace;
use crate::slack::delivery::{After, Order, Outgoing, RequestUrls, Route, verify_url};
use crate::slack::state::EditMark;

impl Workspace {
    /// Begins timestamps and ids at this second: a workspace that forgets
    /// everything must not begin where a gateway has been already.
    pub fn number_from(&self, second: u64) {
        self.with(|world| world.base = second);
    }

    /// Puts the workspace into an organisation.
    pub fn belongs_to(&self, enterprise: &str) {
        self.with(|world| world.settings.enterprise = Some(enterprise.to_owned()));
    }

    /// Whether the app is installed for the whole organisation, so that
    /// interactions name no workspace.
    pub fn is_org_wide(&self, yes: bool) {
        self.with(|world| world.settings.is_org_wide = yes);
    }

    /// How long the app has to acknowledge; 3 s without this.
    pub fn ack_within(&self, span: Duration) {
        self.with(|world| world.settings.ack_within = span);
    }

    /// How long after each failure an event is tried again; 1 s, 1 min and
    /// 5 min without this.
    pub fn retries_after(&self, spans: [Duration; 3]) {
        self.with(|world| world.settings.retry_after = spans);
    }

    /// How long a trigger lives; 3 s without this.
    pub fn trigger_lives(&self, span: Duration) {
        self.with(|world| world.settings.trigger_lives = span);
    }

    /// How long the address for responses lives; 30 min without this.
    pub fn response_url_lives(&self, span: Duration) {
        self.with(|world| world.settings.hook_lives = span);
    }

    /// How often connections that are opened from now on are pinged; every 10 s
    /// without this.
    pub fn pings_every(&self, span: Duration) {
        self.with(|world| world.settings.ping_every = span);
    }

    /// How long before its end a connection is warned; 10 s without this.
    pub fn warns_before(&self, span: Duration) {
        self.with(|world| world.settings.warns_before = span);
    }

    /// Whether calls are counted and too many refused.
    pub fn enforce_rates(&self, yes: bool) {
        self.with(|world| world.settings.enforces_rates = yes);
    }

    /// Whether events about reactions say whose message it was.
    pub fn names_item_user(&self, yes: bool) {
        self.with(|world| world.settings.names_item_user = yes);
    }

    /// Whether `app_mention` comes before the message, not after it.
    pub fn mention_first(&self, yes: bool) {
        self.with(|world| world.settings.mention_first = yes);
    }

    /// How the bot's own changes are marked.
    pub fn marks_edits(&self, mark: EditMark) {
        self.with(|world| world.settings.edit_mark = mark);
    }

    /// What the bot may do from now on.
    pub fn scopes(&self, scopes: &[&str]) {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.with(|world| world.settings.scopes = scopes);
    }

    /// Every call is refused with this word (`token_revoked`,
    /// `account_inactive`), or taken again.
    pub fn refuses_tokens(&self, error: Option<&str>) {
        self.with(|world| world.settings.account_refusal = error.map(str::to_owned));
    }

    /// Delivers to these addresses, or through sockets.
    pub fn delivers_to(&self, urls: Option<RequestUrls>) {
        self.with(|world| world.settings.urls = urls);
    }

    /// Signs with a clock that is so many seconds fast, or slow.
    pub fn clock_is_off_by(&self, seconds: i64) {
        self.with(|world| world.settings.skew = seconds);
    }

    /// Signs with this secret, as somebody else would, or with the right one.
    pub fn signs_with(&self, secret: Option<&str>) {
        self.with(|world| world.settings.wrong_secret = secret.map(str::to_owned));
    }

    /// Asks whether the address for events is the app's.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub async fn verifies_url(&self) -> Result<(), String> {
        verify_url(&self.shared).await
    }

    /// Keeps back what is to be delivered from now on.
    pub fn holds_back(&self) {
        self.with(|world| _ = world.held.get_or_insert_default());
    }

    /// Delivers what was kept back, in this order of what came first, second and
    /// so on; what is not named is lost, what is named twice comes twice.
    pub fn lets_go(&self, order: &[usize]) {
        self.with(|world| {
            let held = world.held.take().unwrap_or_default();
            for outgoing in order.iter().filter_map(|index| held.get(*index)) {
                world.send(outgoing.clone());
            }
        });
    }

    /// How much is kept back.
    pub fn held(&self) -> usize {
        self.shared.world().held.as_ref().map_or(0, Vec::len)
    }

    /// An event comes again under its own id, without a mark.
    pub fn repeats(&self, event_id: &str) {
        self.again(event_id, 0, |_| {});
    }

    /// An event comes as a retry, whether or not it came before.
    pub fn retries(&self, event_id: &str, attempt: usize) {
        self.again(event_id, attempt, |_| {});
    }

    /// An event comes again under a new id, which is returned.
    pub fn repeats_anew(&self, event_id: &str) -> String {
        let id = self.with(|world| world.next_id("Ev"));
        self.again(event_id, 0, |payload| payload["event_id"] = id.as_str().into());
        id
    }

    fn again(&self, event_id: &str, attempt: usize, change: impl FnOnce(&mut Value)) {
        self.with(|world| {
            let known = world.deliveries.iter().map(|delivery| &delivery.payload);
            let known = known.chain(world.held.iter().flatten().map(|outgoing| &outgoing.payload));
            let known = known.into_iter().find(|payload| payload["event_id"] == event_id);
            let mut payload = known.expect("an event with this id").clone();
            change(&mut payload);
            let reason = if attempt > 0 { "timeout" } else { "" };
            let first = Outgoing::first(Route::Events, payload, After::Nothing, false);
            world.send(Outgoing { attempt, reason, ..first });
        });
    }

    /// Any event, as it is, in its usual wrapping; its id.
    pub fn happens(&self, event: Value) -> String {
        self.with(|world| world.happens(event, true))
    }

    /// Any interaction, as it is.
    pub fn interacts(&self, payload: Value) {
        self.with(|world| {
            world.send(Outgoing::first(Route::Interactive, payload, After::Nothing, true));
        });
    }

    /// Any text as a frame, on every connection.
    pub fn envelope(&self, raw: String) {
        self.order(&Order::Frame(raw));
    }

    /// Any bytes as a frame, on every connection.
    pub fn bytes(&self, raw: Vec<u8>) {
        self.order(&Order::Bytes(raw));
    }

    /// Tells every connection that it ends, with this reason: `warning` some time
    /// before it does, the others at once.
    pub fn disconnects(&self, reason: &str) {
        let warned = self.shared.world().settings.warns_before;
        let after = if reason == "warning" { warned } else { Duration::ZERO };
        self.order(&Order::Disconnect(reason.to_owned(), after));
    }

    /// Closes every connection as one should.
    pub fn closes_connections(&self) {
        self.order(&Order::Close);
    }

    /// Cuts every connection without a word.
    pub fn drops_connections(&self) {
        self.order(&Order::Drop);
    }

    /// Every connection stays open, still gets its share, and is dead.
    pub fn haunts_connections(&self) {
        self.order(&Order::Ghost);
    }

    /// The same for the oldest of them alone.
    pub fn haunts_one_connection(&self) {
        self.with(|world| {
            let oldest = world.connections.iter().min_by_key(|connection| connection.number);
            // One that has just ended gets nothing any more.
            oldest.map(|connection| connection.orders.send(Order::Ghost))
        });
    }

    fn order(&self, order: &Order) {
        self.with(|world| {
            for connection in &world.connections {
                // One that has just ended gets nothing any more.
                _ = connection.orders.send(order.clone());
            }
        });
    }

    /// How many connections are open, by what Slack knows.
    pub fn connections(&self) -> usize {
        self.shared.world().connections.len()
    }
}
