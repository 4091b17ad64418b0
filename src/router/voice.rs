//! What is said where. Words go to the person alone; a place that others read
//! sees at most which request ended, and how.

use sayso_channel::{Event, Inbound, Privacy};

use crate::router::{Outcome, Routed};
use crate::store::{self, StoreError, Tx};
use crate::wording;

pub(super) async fn owe(
    tx: &mut Tx,
    channel: &str,
    inbound: &Inbound,
    routed: &Routed,
) -> Result<(), StoreError> {
    let is_private = inbound.place.privacy == Privacy::Private;
    let is_said = matches!(inbound.event, Event::Text { is_secondhand: false, .. });
    // Silence would look as if it had been taken.
    let is_passed = routed.outcome == Outcome::Passed;
    let is_unheard = is_private && is_said && is_passed && routed.is_known;
    let nothing = is_unheard.then_some(wording::NOTHING_WAITS);
    let Some(words) = routed.reply.as_deref().or(nothing) else { return Ok(()) };
    // A press is answered where it was made, by the channel itself.
    if matches!(inbound.event, Event::Tap { .. }) && !routed.is_needed {
        return Ok(());
    }
    let place = inbound.place.address.as_str();
    if is_private {
        return store::notices::owe(tx, channel, place, words).await;
    }
    if routed.outcome == Outcome::Passed {
        // Others talk there too; nobody asked us.
        return Ok(());
    }
    if let (Outcome::Applied, Some(id)) = (routed.outcome, routed.request)
        && let Some(request) = store::requests::find(tx, id).await?
        // Where it came from it is said anyway.
        && request.origin() != Some((channel, place))
    {
        store::notices::owe(tx, channel, place, &wording::bare(&request)).await?;
    }
    let actor = &inbound.actor;
    let binding = store::people::find_binding(tx, channel, &actor.realm, &actor.id).await?;
    match binding.and_then(|binding| binding.address) {
        Some(private) => store::notices::owe(tx, channel, &private, words).await,
        None => Ok(()),
    }
}
