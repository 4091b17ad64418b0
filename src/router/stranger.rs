//! Stage: an account that belongs to nobody. With a pairing code it becomes a
//! person's; without, it learns once a day that nobody lets it in, and nothing
//! else. Only a private conversation counts: there it is certain who says it.

use sayso_channel::{Event, Inbound, Privacy};

use crate::admin::bind_account;
use crate::router::{Outcome, Routed};
use crate::store::strangers::{self, Account};
use crate::store::{StoreError, Tx};
use crate::{pairing, wording};

/// Whether the text is the greeting with which people begin a conversation with
/// a bot.
pub(super) fn is_start(text: &str) -> bool {
    text == "/start" || text.starts_with("/start ")
}

pub(super) async fn meet(
    tx: &mut Tx,
    channel: &str,
    inbound: &Inbound,
    speaks: bool,
) -> Result<Routed, StoreError> {
    let actor = &inbound.actor;
    let is_private = inbound.place.privacy == Privacy::Private && !actor.is_automated;
    let Event::Text { text, is_secondhand: false, .. } = &inbound.event else {
        return Ok(Routed::passed());
    };
    // A page is only shown to people we know.
    if !is_private || !speaks {
        return Ok(Routed::passed());
    }
    let account = Account { channel, realm: &actor.realm, id: &actor.id };
    let said = |words: String| Ok(Routed::new(Outcome::Passed, None, Some(words)));
    let offered = text.trim();
    let offered = if is_start(offered) { offered.strip_prefix("/start") } else { Some(offered) };
    if let Some(code) = offered.and_then(pairing::read) {
        let Some(principal) = strangers::use_pairing(tx, account, &pairing::hash(&code)).await?
        else {
            return said(wording::NOT_PAIRED.to_owned());
        };
        let place = inbound.place.address.as_str();
        return match bind_account(tx, principal, account, place).await? {
            Some(name) => said(wording::paired(&name)),
            None => said(wording::NOT_PAIRED.to_owned()),
        };
    }
    if strangers::is_to_be_told(tx, account).await? {
        return said(wording::STRANGER.to_owned());
    }
    Ok(Routed::passed())
}
