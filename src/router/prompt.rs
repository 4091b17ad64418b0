//! Stage: the reason for a no. Whoever pressed *Deny with reason* was asked for
//! it in their conversation; the next words there are it, unless they say yes.

use crate::decisions::{Means, Verdict};
use crate::router::bare::Conversation;
use crate::router::intent::Intent;
use crate::router::reading;
use crate::store::{self, StoreError, Tx};

pub(super) async fn read(
    tx: &mut Tx,
    place: Conversation<'_>,
    text: &str,
) -> Result<Option<Intent>, StoreError> {
    let Some(id) = store::prompts::find(tx, place.channel, place.address).await? else {
        return Ok(None);
    };
    store::prompts::clear(tx, place.channel, place.address).await?;
    let is_open = store::requests::find(tx, id).await?.is_some_and(|r| !r.status.is_final());
    let reading = reading::read(text);
    // Second thoughts are no reason for a no.
    if !is_open || reading.is_clean_yes() {
        return Ok(None);
    }
    let reason = Some(text.trim().to_owned()).filter(|_| !reading.is_clean_no());
    let verdict = Verdict::Deny { reason };
    Ok(Some(Intent::Decide { request: id, verdict, means: Means::Quote }))
}
