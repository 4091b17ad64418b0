//! After a tool approval: its agent is told. The call itself is the agent's to
//! make, with the bytes that were shown.

use crate::requests::Request;
use crate::resolvers::{Owed, Resolver, notify_agent};

pub(super) struct ToolApproval;

impl Resolver for ToolApproval {
    fn owed(&self, request: &Request) -> Vec<Owed> {
        notify_agent(request).into_iter().collect()
    }
}
