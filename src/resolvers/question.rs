//! After a question: its agent is told the answer, or that there is none.

use crate::requests::Request;
use crate::resolvers::{Owed, Resolver, notify_agent};

pub(super) struct Question;

impl Resolver for Question {
    fn owed(&self, request: &Request) -> Vec<Owed> {
        notify_agent(request).into_iter().collect()
    }
}
