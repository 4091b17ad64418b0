//! Stage: the reason for a no. Whoever pressed *Deny with reason* was asked for
//! it in their conversation; the next words there are it, unless they say yes or
//! a question waits there too, which they could answer as well.

use crate::decisions::{Actor, Means, Verdict};
use crate::requests::Kind;
use crate::router::bare::Conversation;
use crate::router::intent::Intent;
use crate::router::reading;
use crate::store::{self, StoreError, Tx};

pub(super) async fn read(
    tx: &mut Tx,
    actor: &Actor,
    place: Conversation<'_>,
    text: &str,
) -> Result<Option<Intent>, StoreError> {
    let Some(id) = store::prompts::find(tx, place.channel, place.address).await? else {
        return Ok(None);
    };
    let live =
        store::requests::list_live_at(tx, actor.principal, place.channel, place.address).await?;
    let is_open = live.iter().any(|request| request.id == id);
    if is_open && live.iter().any(|request| request.content.kind == Kind::Question) {
        return Ok(Some(Intent::Disambiguate(live)));
    }
    store::prompts::clear(tx, place.channel, place.address).await?;
    let reading = reading::read(text);
    // Second thoughts are no reason for a no.
    if !is_open || reading.is_clean_yes() {
        return Ok(None);
    }
    let reason = Some(text.trim().to_owned()).filter(|_| !reading.is_clean_no());
    let verdict = Verdict::Deny { reason };
    Ok(Some(Intent::Decide { request: id, verdict, means: Means::Quote }))
}
