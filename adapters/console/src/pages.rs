//! Handlers. Reading never changes what a card is about; every change is a
//! posted form, stored in the inbox before anything comes of it.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Form, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use futures_util::stream;
use sayso_channel::{DeskError, Visitor};
use serde::Deserialize;

use crate::wire::{self, What};
use crate::{Console, guard, view};

/// Cards that wait and are shown at once.
const WAITING: u32 = 50;
/// Ended cards on a page.
const ENDED: u32 = 25;
/// Bytes of a form at most.
const FORM: usize = 32 * 1024;
/// Characters that can be typed at once.
const TEXT: usize = 8_000;

pub(crate) fn routes(console: Console) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::to("/console/") }))
        .route("/console", get(|| async { Redirect::permanent("/console/") }))
        .route("/console/", get(show_waiting))
        .route("/console/history", get(show_history))
        .route("/console/cards/{message}", get(show_card))
        .route("/console/events", get(follow))
        .route("/console/login", get(show_login).post(log_in))
        .route("/console/logout", post(log_out))
        .route("/console/tap", post(tap))
        .route("/console/say", post(say))
        .route("/console/assets/console.css", get(|| async { asset("text/css", view::STYLE) }))
        .route(
            "/console/assets/console.js",
            get(|| async { asset("text/javascript", view::SCRIPT) }),
        )
        .layer(DefaultBodyLimit::max(FORM))
        .layer(middleware::from_fn(guard::guard))
        .with_state(console)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}

/// Why a page is not shown.
enum Stop {
    /// Nobody is logged in.
    LoggedOut,
    /// The form is not one of the visitor's own.
    ForeignForm,
    /// The form can't be read.
    BadForm(String),
    /// There is no such card for this visitor.
    NoCard,
    /// The gateway can't answer.
    Unavailable,
}

impl From<DeskError> for Stop {
    fn from(_: DeskError) -> Self {
        Self::Unavailable
    }
}

impl IntoResponse for Stop {
    fn into_response(self) -> Response {
        let (status, page) = match self {
            Self::LoggedOut => (
                StatusCode::UNAUTHORIZED,
                view::message(
                    "Not logged in",
                    "Your login has ended or there was none. Run `sayso console link` and open \
                     the link it prints.",
                ),
            ),
            Self::ForeignForm => (
                StatusCode::FORBIDDEN,
                view::message(
                    "Refused",
                    "This form is out of date. Reload the page and try again.",
                ),
            ),
            Self::BadForm(why) => (StatusCode::BAD_REQUEST, view::message("Not understood", &why)),
            Self::NoCard => (
                StatusCode::NOT_FOUND,
                view::message("Not found", "There is no such card for you."),
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                view::message(
                    "Not now",
                    "The gateway can't answer at the moment. Nothing changed.",
                ),
            ),
        };
        (status, page).into_response()
    }
}

async fn visitor(console: &Console, headers: &HeaderMap) -> Result<Visitor, Stop> {
    let login = guard::login(headers).ok_or(Stop::LoggedOut)?;
    console.desk.visitor(login).await?.ok_or(Stop::LoggedOut)
}

#[derive(Deserialize)]
struct Said {
    said: Option<String>,
}

async fn show_waiting(
    State(console): State<Console>,
    Query(query): Query<Said>,
    headers: HeaderMap,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let seen = console.desk.changed(&visitor.address, None).await.unwrap_or(0);
    console.desk.present(&visitor).await?;
    let (items, count) = console.desk.waiting(&visitor.address, WAITING).await?;
    let recent = console.desk.ended(&visitor.address, None, 5).await?;
    let said = match &query.said {
        Some(id) => console.desk.reply(&visitor, id).await?,
        None => None,
    };
    let troubles = console.desk.troubles().await?;
    let page = view::Waiting {
        visitor: &visitor,
        items: &items,
        count,
        recent: &recent,
        troubles: &troubles,
    };
    Ok(view::waiting(&page, said.as_deref(), seen).into_response())
}

#[derive(Deserialize)]
struct Before {
    before: Option<String>,
}

async fn show_history(
    State(console): State<Console>,
    Query(query): Query<Before>,
    headers: HeaderMap,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let seen = console.desk.changed(&visitor.address, None).await.unwrap_or(0);
    let items = console.desk.ended(&visitor.address, query.before.as_deref(), ENDED).await?;
    let has_more = items.len() >= ENDED as usize;
    Ok(view::history(&visitor, &items, has_more, seen).into_response())
}

async fn show_card(
    State(console): State<Console>,
    Path(message): Path<String>,
    Query(query): Query<Said>,
    headers: HeaderMap,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let seen = console.desk.changed(&visitor.address, None).await.unwrap_or(0);
    console.desk.present(&visitor).await?;
    let found = console.desk.item(&visitor.address, &message).await?.ok_or(Stop::NoCard)?;
    let said = match &query.said {
        Some(id) => console.desk.reply(&visitor, id).await?,
        None => None,
    };
    Ok(view::card_page(&visitor, &found, said.as_deref(), seen).into_response())
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    link: String,
}

/// Shows a button; only pressing it uses the link up, so that programs which
/// look at links for people can't.
async fn show_login(Query(query): Query<Link>) -> Response {
    view::login(&query.link).into_response()
}

async fn log_in(
    State(console): State<Console>,
    form: Result<Form<Link>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Stop> {
    let Form(form) = form.map_err(|error| Stop::BadForm(error.body_text()))?;
    let Some(session) = console.desk.log_in(&form.link).await? else {
        let page = view::message(
            "Link not valid",
            "This link was used already or is older than ten minutes. Run `sayso console link` \
             for a new one.",
        );
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    let secure = if console.is_encrypted { "; Secure" } else { "" };
    let cookie = format!(
        "{}={session}; HttpOnly; SameSite=Strict; Path=/console; Max-Age=43200{secure}",
        guard::COOKIE
    );
    let mut response = Redirect::to("/console/").into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Deserialize)]
struct Out {
    form_key: String,
}

async fn log_out(
    State(console): State<Console>,
    headers: HeaderMap,
    form: Result<Form<Out>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let Form(form) = form.map_err(|error| Stop::BadForm(error.body_text()))?;
    if !guard::is_own_form(&visitor.form_key, &form.form_key) {
        return Err(Stop::ForeignForm);
    }
    if let Some(login) = guard::login(&headers) {
        console.desk.log_out(login).await?;
    }
    let cookie = format!("{}=; HttpOnly; SameSite=Strict; Path=/console; Max-Age=0", guard::COOKIE);
    let mut response =
        view::message("Logged out", "Run `sayso console link` to come back.").into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Deserialize)]
struct TapForm {
    form_key: String,
    once: String,
    message: String,
    token: String,
    text: Option<String>,
    back: Option<String>,
}

async fn tap(
    State(console): State<Console>,
    headers: HeaderMap,
    form: Result<Form<TapForm>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let Form(form) = form.map_err(|error| Stop::BadForm(error.body_text()))?;
    if form.token.parse::<sayso_channel::ActionToken>().is_err() {
        return Err(Stop::BadForm("The button carries no action.".to_owned()));
    }
    let text = form.text.filter(|text| !text.trim().is_empty()).map(|text| wire::typed(&text));
    let what = What::Tap { token: form.token, message: form.message, text };
    submit(&console, &visitor, &form.form_key, &form.once, form.back.as_deref(), what).await
}

#[derive(Deserialize)]
struct SayForm {
    form_key: String,
    once: String,
    text: String,
    reply_to: Option<String>,
    back: Option<String>,
}

async fn say(
    State(console): State<Console>,
    headers: HeaderMap,
    form: Result<Form<SayForm>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let Form(form) = form.map_err(|error| Stop::BadForm(error.body_text()))?;
    if form.text.trim().is_empty() {
        return Err(Stop::BadForm("There is no text in it.".to_owned()));
    }
    let what = What::Text { text: wire::typed(&form.text), reply_to: form.reply_to };
    submit(&console, &visitor, &form.form_key, &form.once, form.back.as_deref(), what).await
}

/// Stores what was submitted, waits a moment for what comes of it, and goes back
/// to a page that shows it. Submitting the same form again changes nothing.
async fn submit(
    console: &Console,
    visitor: &Visitor,
    form_key: &str,
    once: &str,
    back: Option<&str>,
    what: What,
) -> Result<Response, Stop> {
    if !guard::is_own_form(&visitor.form_key, form_key) {
        return Err(Stop::ForeignForm);
    }
    if once.is_empty() || once.len() > 64 {
        return Err(Stop::BadForm("The form is not one of this page.".to_owned()));
    }
    let text = match &what {
        What::Tap { text, .. } => text.as_deref().unwrap_or_default(),
        What::Text { text, .. } => text,
    };
    if text.chars().count() > TEXT {
        return Err(Stop::BadForm(format!("A text may have {TEXT} characters at most.")));
    }
    let raw = wire::raw(&visitor.account, &visitor.address.0, once, what);
    let accepted = console.inbox.accept(crate::NAME, raw).await.map_err(|_| Stop::Unavailable)?;
    let reply = console.inbox.outcome(&accepted).await;
    let is_card = |path: &&str| {
        path.strip_prefix("/console/cards/")
            .is_some_and(|id| id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let back = back.filter(is_card).unwrap_or("/console/");
    let target = match reply {
        Some(_) => format!("{back}?said={}", accepted.id),
        None => back.to_owned(),
    };
    Ok(Redirect::to(&target).into_response())
}

#[derive(Deserialize)]
struct Seen {
    seen: Option<u64>,
}

/// Tells a page that it should look again.
async fn follow(
    State(console): State<Console>,
    Query(query): Query<Seen>,
    headers: HeaderMap,
) -> Result<Response, Stop> {
    let visitor = visitor(&console, &headers).await?;
    let start = query.seen.unwrap_or(0);
    let events = stream::unfold((console, visitor, start), |(console, visitor, seen)| async move {
        let now = loop {
            let now = console.desk.changed(&visitor.address, Some(seen)).await?;
            // An open page is one that somebody may look at.
            console.desk.present(&visitor).await.ok()?;
            if now != seen {
                break now;
            }
        };
        let event = Event::default().event("changed").data(now.to_string());
        Some((Ok::<_, Infallible>(event), (console, visitor, now)))
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15)).text("still here");
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}
