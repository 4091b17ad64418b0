//! What the operator sets up: people, agents, links.

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::decisions::{Ruling, cancel, prepare_delivery};
use crate::ids::{AgentId, BindingId, PrincipalId};
use crate::people::{Agent, Binding, Principal, check_name};
use crate::store::requests::Filter;
use crate::store::{self, StoreError, Tx, Write, audit, strangers};
use crate::{pairing, secrets};

/// The agent that commands at the keyboard ask as.
pub const KEYBOARD_AGENT: &str = "cli";

/// Why something was not set up; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The name can't be given.
    #[error(transparent)]
    Name(#[from] crate::people::NameError),
    /// The name is taken.
    #[error("there is one with that name already")]
    Taken,
    /// There is nobody of that name.
    #[error("there is no {0} of that name")]
    Unknown(&'static str),
    /// The guardian still has open requests.
    #[error("open requests wait for this guardian ({0}); --force cancels them")]
    HasOpen(i64),
    /// The account can't be bound.
    #[error("{0}")]
    Account(&'static str),
}

/// Adds a guardian, with their place in the console.
pub struct AddGuardian {
    /// The name.
    pub name: String,
}

#[async_trait]
impl Write for AddGuardian {
    type Out = Result<Principal, AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        if let Err(error) = check_name(&self.name) {
            return Ok(Err(error.into()));
        }
        if store::people::find_by_name(tx, &self.name).await?.is_some() {
            return Ok(Err(AdminError::Taken));
        }
        let id = PrincipalId::new();
        let principal = Principal { id, name: self.name.clone(), created_at: tx.now() };
        store::people::insert(tx, &principal).await?;
        let binding = Binding {
            id: BindingId::new(),
            principal: id,
            channel: "console".to_owned(),
            realm: String::new(),
            account: id.to_string(),
            // Not the name: another person may get it later.
            address: Some(id.to_string()),
            last_seen_at: None,
            trouble: None,
            has_failed: false,
        };
        store::people::bind(tx, &binding).await?;
        note(tx, "guardian.added", &self.name);
        Ok(Ok(principal))
    }
}

/// Makes sure that somebody can decide: adds `owner` where there is nobody yet.
pub struct EnsureOwner;

#[async_trait]
impl Write for EnsureOwner {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if store::people::list(tx).await?.is_empty() {
            let add = AddGuardian { name: "owner".to_owned() };
            // The name is fine and free, so it is added.
            let _ = add.run(tx).await?;
        }
        Ok(())
    }
}

/// Removes a guardian.
pub struct RemoveGuardian {
    /// The name.
    pub name: String,
    /// Whether their open requests are cancelled.
    pub force: bool,
}

#[async_trait]
impl Write for RemoveGuardian {
    type Out = Result<(), AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        let Some(person) = store::people::find_by_name(tx, &self.name).await? else {
            return Ok(Err(AdminError::Unknown("guardian")));
        };
        let open = store::requests::list_pending_of(tx, person.id).await?;
        if !open.is_empty() && !self.force {
            return Ok(Err(AdminError::HasOpen(i64::try_from(open.len()).unwrap_or(i64::MAX))));
        }
        for id in open {
            let ruling: Ruling = cancel(tx, id, "guardian removed", "operator", None).await?;
            drop(ruling);
        }
        store::people::remove(tx, person.id).await?;
        note(tx, "guardian.removed", &self.name);
        Ok(Ok(()))
    }
}

/// Binds an account on a channel to a guardian, by hand.
pub struct BindGuardian {
    /// The guardian's name.
    pub name: String,
    /// The channel.
    pub channel: String,
    /// The workspace of the account, or nothing.
    pub realm: String,
    /// The account's immutable id.
    pub account: String,
    /// The private address, if it is known.
    pub address: Option<String>,
}

#[async_trait]
impl Write for BindGuardian {
    type Out = Result<Binding, AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        if let Err(error) = check_account(&self.channel, &self.account) {
            return Ok(Err(error));
        }
        let is_shared = self.address.as_ref().is_some_and(|address| address.starts_with('-'));
        if self.channel == "telegram" && is_shared {
            let words = "that is the address of a group; cards go to private chats only";
            return Ok(Err(AdminError::Account(words)));
        }
        let Some(person) = store::people::find_by_name(tx, &self.name).await? else {
            return Ok(Err(AdminError::Unknown("guardian")));
        };
        let taken =
            store::people::find_binding(tx, &self.channel, &self.realm, &self.account).await?;
        if taken.is_some() {
            return Ok(Err(AdminError::Account("this account is bound already")));
        }
        let binding = Binding {
            id: BindingId::new(),
            principal: person.id,
            channel: self.channel.clone(),
            realm: self.realm.clone(),
            account: self.account.clone(),
            // A private Telegram chat has the id of the person.
            address: self
                .address
                .clone()
                .or_else(|| (self.channel == "telegram").then(|| self.account.clone())),
            last_seen_at: None,
            trouble: None,
            has_failed: false,
        };
        store::people::bind(tx, &binding).await?;
        note(tx, "guardian.bound", &self.name);
        show_waiting(tx, &binding).await?;
        Ok(Ok(binding))
    }
}

/// Binds the account of somebody who proved by a pairing code that it is theirs;
/// their name, or `None` when that can't be.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn bind_account(
    tx: &mut Tx,
    principal: PrincipalId,
    account: strangers::Account<'_>,
    address: &str,
) -> Result<Option<String>, StoreError> {
    let strangers::Account { channel, realm, id } = account;
    let Some(person) = store::people::find(tx, principal).await? else { return Ok(None) };
    let is_taken = store::people::find_binding(tx, channel, realm, id).await?.is_some();
    if is_taken || check_account(channel, id).is_err() {
        return Ok(None);
    }
    let binding = Binding {
        id: BindingId::new(),
        principal,
        channel: channel.to_owned(),
        realm: realm.to_owned(),
        account: id.to_owned(),
        address: Some(address.to_owned()),
        last_seen_at: None,
        trouble: None,
        has_failed: false,
    };
    store::people::bind(tx, &binding).await?;
    store::people::touch(tx, binding.id).await?;
    note(tx, "guardian.bound", &person.name);
    show_waiting(tx, &binding).await?;
    Ok(Some(person.name))
}

/// What waits for the person already is shown at a new place too.
async fn show_waiting(tx: &mut Tx, binding: &Binding) -> Result<(), StoreError> {
    for id in store::requests::list_pending_of(tx, binding.principal).await? {
        if let Some(request) = store::requests::find(tx, id).await? {
            prepare_delivery(tx, &request, binding).await?;
            store::jobs::again(tx, store::jobs::BROADCAST, id).await?;
        }
    }
    Ok(())
}

/// Makes a pairing code; the person sends it to the bot in a private chat.
pub struct AddPairing {
    /// The guardian's name.
    pub name: String,
    /// The channel.
    pub channel: String,
    /// The hash of the code.
    pub hash: String,
}

#[async_trait]
impl Write for AddPairing {
    /// When it can't be used any more.
    type Out = Result<Timestamp, AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        if !["telegram", "slack"].contains(&self.channel.as_str()) {
            return Ok(Err(AdminError::Account("the channel must be telegram or slack")));
        }
        let Some(person) = store::people::find_by_name(tx, &self.name).await? else {
            return Ok(Err(AdminError::Unknown("guardian")));
        };
        let (id, life) = (person.id, pairing::LIFE);
        strangers::insert_pairing(tx, &self.hash, id, &self.channel, life).await?;
        note(tx, "guardian.pairing", &self.name);
        Ok(Ok(tx.now().plus(life)))
    }
}

/// Ids that stand for many people, or for none.
fn check_account(channel: &str, account: &str) -> Result<(), AdminError> {
    match channel {
        "telegram" => {
            let id = account.parse::<i64>().map_err(|_| {
                AdminError::Account(
                    "a Telegram account is a number, not a name; names can change hands",
                )
            })?;
            match id {
                777_000 | 1_087_968_824 | 136_817_688 => Err(AdminError::Account(
                    "this id stands for everybody who posts anonymously, not for a person",
                )),
                ..=0 => Err(AdminError::Account("this is the id of a group, not of a person")),
                1.. => Ok(()),
            }
        }
        "slack" => {
            let is_id = account.starts_with(['U', 'W'])
                && account.len() > 3
                && account.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
            let wanted = "a Slack account is an id like U024BE7LH, not a name";
            if is_id { Ok(()) } else { Err(AdminError::Account(wanted)) }
        }
        _ => Err(AdminError::Account("the channel must be telegram or slack")),
    }
}

/// What is shown once of a new agent.
#[derive(Debug, Clone)]
pub struct NewAgent {
    /// The agent.
    pub agent: Agent,
    /// Its key.
    pub key: String,
}

/// Adds an agent.
pub struct AddAgent {
    /// The name.
    pub name: String,
    /// Who decides for it.
    pub guardian: Option<String>,
}

#[async_trait]
impl Write for AddAgent {
    type Out = Result<NewAgent, AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        if let Err(error) = check_name(&self.name) {
            return Ok(Err(error.into()));
        }
        if self.name == KEYBOARD_AGENT
            || store::agents::find_by_name(tx, &self.name).await?.is_some()
        {
            return Ok(Err(AdminError::Taken));
        }
        let guardian = match &self.guardian {
            Some(name) => match store::people::find_by_name(tx, name).await? {
                Some(person) => Some(person.id),
                None => return Ok(Err(AdminError::Unknown("guardian"))),
            },
            None => None,
        };
        let agent = Agent {
            id: AgentId::new(),
            name: self.name.clone(),
            guardian,
            webhook_secret: secrets::webhook_secret(),
        };
        let key = secrets::agent_key();
        store::agents::insert(tx, &agent, Some(&secrets::hash(&key))).await?;
        note(tx, "agent.added", &self.name);
        Ok(Ok(NewAgent { agent, key }))
    }
}

/// The agent that commands ask as; it has no key.
pub struct EnsureKeyboardAgent;

#[async_trait]
impl Write for EnsureKeyboardAgent {
    type Out = Agent;

    async fn run(&self, tx: &mut Tx) -> Result<Agent, StoreError> {
        if let Some(agent) = store::agents::find_by_name(tx, KEYBOARD_AGENT).await? {
            return Ok(agent);
        }
        let agent = Agent {
            id: AgentId::new(),
            name: KEYBOARD_AGENT.to_owned(),
            guardian: None,
            webhook_secret: secrets::webhook_secret(),
        };
        store::agents::insert(tx, &agent, None).await?;
        Ok(agent)
    }
}

/// Makes an agent's key worthless.
pub struct RevokeAgent {
    /// The name.
    pub name: String,
}

#[async_trait]
impl Write for RevokeAgent {
    type Out = Result<(), AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        let Some(agent) = store::agents::find_by_name(tx, &self.name).await? else {
            return Ok(Err(AdminError::Unknown("agent")));
        };
        store::agents::revoke(tx, agent.id).await?;
        note(tx, "agent.revoked", &self.name);
        Ok(Ok(()))
    }
}

/// Writes a one-time link for the console of a guardian.
pub struct AddLink {
    /// The guardian's name.
    pub name: String,
    /// The hash of the secret in the link.
    pub hash: String,
    /// How long it can be used.
    pub life: Duration,
}

#[async_trait]
impl Write for AddLink {
    type Out = Result<(), AdminError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        let Some(person) = store::people::find_by_name(tx, &self.name).await? else {
            return Ok(Err(AdminError::Unknown("guardian")));
        };
        store::logins::insert_link(tx, &self.hash, person.id, self.life).await?;
        Ok(Ok(()))
    }
}

/// After a backup was put back: cards sent before must decide nothing, so every
/// request that waits in it is cancelled and its agent learns that.
pub struct AfterRestore;

#[async_trait]
impl Write for AfterRestore {
    type Out = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, StoreError> {
        let filter = Filter {
            status: Some(crate::requests::status::Status::Pending),
            limit: i64::MAX,
            ..Filter::default()
        };
        let pending = store::requests::list(tx, &filter).await?;
        for request in &pending {
            let ruling: Ruling =
                cancel(tx, request.id, "a backup was restored; ask again", "operator", None)
                    .await?;
            drop(ruling);
        }
        note(tx, "database.restored", "operator");
        Ok(pending.len())
    }
}

fn note(tx: &mut Tx, kind: &str, actor: &str) {
    audit::insert(tx, &audit::Event { kind, actor: Some(actor), ..audit::Event::default() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_stand_for_nobody_in_particular_are_refused() {
        for id in ["777000", "1087968824", "136817688", "-100123", "0", "@ada", "ada", ""] {
            assert!(check_account("telegram", id).is_err(), "{id}");
        }
        assert_eq!(check_account("telegram", "700001"), Ok(()));
        for id in ["ada", "@ada", "B0GATE001", "U1", "u024be7lh"] {
            assert!(check_account("slack", id).is_err(), "{id}");
        }
        assert_eq!(check_account("slack", "U024BE7LH"), Ok(()));
        assert!(check_account("pigeon", "1").is_err());
    }
}
