//! Files, in the three steps that they take.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use url::Url;

use crate::slack::state::{Refusal, Upload, World};
use crate::slack::web::{
    Outcome, Parameters, checked_content, missing, needed, number, structure, text,
};
use crate::slack::{Shared, shapes};

/// An address for the content of one file.
pub(super) fn begin(world: &mut World, parameters: &Parameters, base: &Url) -> Outcome {
    let name = needed(parameters, "filename")?.to_owned();
    let length = number(parameters, "length").filter(|length| *length > 0);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| Refusal::new("missing_argument"))?;
    let id = world.next_id("F");
    let url = base.join(&format!("upload/v1/{id}")).expect("a URL");
    world.uploads.push(Upload {
        id: id.clone(),
        title: name.clone(),
        name,
        content: Vec::new(),
        shared_in: None,
        length,
        is_received: false,
        is_complete: false,
    });
    Ok(json!({ "upload_url": url.as_str(), "file_id": id }))
}

/// Takes the content, as the body or as the only file of a form.
pub(in crate::slack) async fn receive(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let mut world = shared.world();
    let Some(upload) = world.uploads.iter_mut().find(|of| of.id == id && !of.is_received) else {
        return (StatusCode::NOT_FOUND, "not found").into_response();
    };
    let content = from_form(&body).unwrap_or_else(|| body.to_vec());
    if content.len() != upload.length {
        return (StatusCode::BAD_REQUEST, "the length is not the one announced").into_response();
    }
    upload.content = content;
    upload.is_received = true;
    let words = format!("OK - {}", upload.length);
    drop(world);
    shared.touch();
    words.into_response()
}

/// The content of the first part, if the body is a form.
fn from_form(body: &[u8]) -> Option<Vec<u8>> {
    let is_form = body.starts_with(b"--");
    let text = std::str::from_utf8(body).ok().filter(|_| is_form)?;
    let (boundary, rest) = text.split_once("\r\n")?;
    let (head, content) = rest.split_once("\r\n\r\n")?;
    let content = content.split(&format!("\r\n{boundary}")).next()?;
    head.to_ascii_lowercase().contains("form-data").then(|| content.as_bytes().to_vec())
}

/// Ends uploads and shares the files.
pub(super) fn complete(world: &mut World, parameters: &Parameters) -> Outcome {
    let Ok(Some(Value::Array(files))) = structure(parameters, "files") else {
        return Err(missing("files"));
    };
    let channel = text(parameters, "channel_id");
    if let Some(channel) = channel {
        // A person's id or a name will not do here.
        if !channel.starts_with(['C', 'G', 'D']) {
            let words = "must match regex pattern: ^[CGDZ][A-Z0-9]{8,}$";
            let words = format!("{words} [json-pointer:/channel_id]");
            return Err(Refusal::explained("invalid_arguments", vec![words]));
        }
        let place = world.places.get(channel).filter(|place| place.is_visible());
        let place = place.ok_or_else(|| Refusal::new("channel_not_found"))?;
        if !place.has_bot() {
            return Err(Refusal::new("not_in_channel"));
        }
        if place.is_archived {
            return Err(Refusal::new("is_archived"));
        }
    }
    let mut done = Vec::new();
    for file in &files {
        let id = file["id"].as_str().unwrap_or_default();
        let known = world.uploads.iter_mut().find(|u| u.id == id && u.is_received);
        let upload = known.ok_or_else(|| Refusal::new("file_not_found"))?;
        if upload.is_complete {
            return Err(Refusal::new("file_update_failed"));
        }
        if let Some(title) = file["title"].as_str() {
            title.clone_into(&mut upload.title);
        }
        upload.is_complete = true;
        upload.shared_in = channel.map(str::to_owned);
        done.push(shapes::file(upload));
    }
    if let Some(channel) = channel {
        let mut given = parameters.clone();
        let comment = given.remove("initial_comment").unwrap_or_else(|| "".into());
        given.insert("text".to_owned(), comment);
        let content = checked_content(world, &given)?;
        let mut shown = world.bots_own();
        content.fill(&mut shown);
        shown.subtype = Some("file_share".to_owned());
        shown.thread_ts = text(parameters, "thread_ts").map(str::to_owned);
        shown.files.clone_from(&done);
        world.post(channel, shown);
    }
    Ok(json!({ "files": done }))
}
