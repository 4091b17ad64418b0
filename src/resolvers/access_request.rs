//! After an access request: whoever filed it is told. Letting somebody in is
//! not part of this gateway yet, and nothing files such requests.

use crate::requests::Request;
use crate::resolvers::{Owed, Resolver, notify_agent};

pub(super) struct AccessRequest;

impl Resolver for AccessRequest {
    fn owed(&self, request: &Request) -> Vec<Owed> {
        notify_agent(request).into_iter().collect()
    }
}
