//! The HTML. Every text is a text node or an attribute that maud escapes.

use std::time::{SystemTime, UNIX_EPOCH};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sayso_channel::text::{shorten, utc};
use sayso_channel::{Action, Block, Card, Emphasis, Item, ItemView, Tone, Visitor};

pub(crate) const STYLE: &str = include_str!("../assets/console.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/console.js");

/// What the page of waiting cards shows.
pub(crate) struct Waiting<'a> {
    pub(crate) visitor: &'a Visitor,
    pub(crate) items: &'a [Item],
    pub(crate) count: u64,
    pub(crate) recent: &'a [Item],
    pub(crate) troubles: &'a [String],
}

struct Frame<'a> {
    title: &'a str,
    visitor: Option<&'a Visitor>,
    here: &'a str,
    seen: Option<u64>,
}

fn frame(frame: &Frame<'_>, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (frame.title) " · Sayso" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/console/assets/console.css";
                script src="/console/assets/console.js" defer {}
            }
            body data-seen=[frame.seen] {
                header.top {
                    a.brand href="/console/" { "Sayso" }
                    @if let Some(visitor) = frame.visitor {
                        nav aria-label="Pages" {
                            (nav_link("/console/", "Waiting", frame.here))
                            (nav_link("/console/history", "History", frame.here))
                        }
                        form.out method="post" action="/console/logout" {
                            input type="hidden" name="form_key" value=(visitor.form_key);
                            span.who { (visitor.name) }
                            button.quiet type="submit" { "Log out" }
                        }
                    }
                }
                main id="main" { (main) }
            }
        }
    }
}

fn nav_link(href: &str, label: &str, here: &str) -> Markup {
    let current = (href == here).then_some("page");
    html! { a href=(href) aria-current=[current] { (label) } }
}

pub(crate) fn message(title: &str, text: &str) -> Markup {
    let main = html! {
        section.message { h1 { (title) } p { (with_code(text)) } }
    };
    frame(&Frame { title, visitor: None, here: "", seen: None }, &main)
}

/// Words between backticks as code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

pub(crate) fn login(link: &str) -> Markup {
    let main = html! {
        section.message {
            h1 { "Log in" }
            p { "This link opens the console once, for you." }
            form method="post" action="/console/login" data-go {
                input type="hidden" name="link" value=(link);
                button.primary type="submit" { "Open the console" }
            }
        }
    };
    frame(&Frame { title: "Log in", visitor: None, here: "", seen: None }, &main)
}

pub(crate) fn waiting(page: &Waiting<'_>, said: Option<&str>, seen: u64) -> Markup {
    let Waiting { visitor, items, count, recent, troubles } = page;
    let shown = items.len() as u64;
    let main = html! {
        (said_words(said))
        div id="live" {
            @for trouble in *troubles { p.trouble role="status" { (trouble) } }
            h1 { "Waiting for you" @if *count > 0 { " " span.count { (count) } } }
            @if items.is_empty() {
                p.empty { "Nothing waits. New requests appear here by themselves." }
            }
            @for item in *items { (card(visitor, item, "/console/", true)) }
            @if *count > shown {
                p.empty { (count - shown) " more wait; answer some of these first." }
            }
            @if !recent.is_empty() {
                h2 { "Lately" }
                (past(recent))
            }
        }
        (talk(visitor))
    };
    frame(
        &Frame { title: "Waiting", visitor: Some(visitor), here: "/console/", seen: Some(seen) },
        &main,
    )
}

fn said_words(said: Option<&str>) -> Markup {
    html! {
        @if let Some(said) = said {
            p.said role="status" { (said) }
        }
    }
}

/// The box in which codes and words can be typed as in a chat.
fn talk(visitor: &Visitor) -> Markup {
    html! {
        form.talk method="post" action="/console/say" {
            (form_fields(visitor, "/console/"))
            label for="talk" { "Type a code or words" }
            div.row {
                input id="talk" name="text" autocomplete="off" autocapitalize="off"
                    maxlength="8000" placeholder="K7M2Q9 approve" required;
                button type="submit" { "Send" }
            }
        }
    }
}

fn form_fields(visitor: &Visitor, back: &str) -> Markup {
    html! {
        input type="hidden" name="form_key" value=(visitor.form_key);
        input type="hidden" name="once" value=(once());
        input type="hidden" name="back" value=(back);
    }
}

/// A name for one rendering of one form, so that a second submission of it is
/// known for what it is. It is no secret.
fn once() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    #[expect(clippy::disallowed_methods, reason = "only to be different from other processes")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{now:x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn history(visitor: &Visitor, items: &[Item], has_more: bool, seen: u64) -> Markup {
    let main = html! {
        div id="live" {
            h1 { "History" }
            @if items.is_empty() { p.empty { "Nothing has ended yet." } }
            (past(items))
            @if let Some(last) = items.last().filter(|_| has_more) {
                p { a href={ "/console/history?before=" (last.message) } { "Older" } }
            }
        }
    };
    let here = "/console/history";
    frame(&Frame { title: "History", visitor: Some(visitor), here, seen: Some(seen) }, &main)
}

fn past(items: &[Item]) -> Markup {
    html! {
        ul.past {
            @for item in items {
                li class=(tone_class(item.card.tone)) {
                    a href={ "/console/cards/" (item.message) } { (item.card.title) }
                    p.status { (item.card.status) }
                }
            }
        }
    }
}

pub(crate) fn card_page(
    visitor: &Visitor,
    view: &ItemView,
    said: Option<&str>,
    seen: u64,
) -> Markup {
    let back = format!("/console/cards/{}", view.item.message);
    let main = html! {
        (said_words(said))
        div id="live" {
            (card(visitor, &view.item, &back, false))
            h2 { "What happened" }
            ol.trail {
                @for remark in &view.trail {
                    li { (time(remark.at, false)) " " (remark.text) }
                }
            }
        }
    };
    let title = shorten(&view.item.card.title, 60);
    frame(&Frame { title: &title, visitor: Some(visitor), here: "", seen: Some(seen) }, &main)
}

fn card(visitor: &Visitor, item: &Item, back: &str, is_linked: bool) -> Markup {
    let card = &item.card;
    let heading = format!("title-{}", item.message);
    html! {
        article class={ "card " (tone_class(card.tone)) } aria-labelledby=(heading) id=(item.message) {
            header {
                h2 id=(heading) {
                    @if is_linked {
                        a href={ "/console/cards/" (item.message) } { (card.title) }
                    } @else { (card.title) }
                }
                p.status {
                    (card.status)
                    @if let Some(at) = card.expires_at { ", expires " (time(at, true)) }
                }
            }
            @for block in &card.blocks { (draw_block(block)) }
            @if !card.actions.is_empty() { (actions(visitor, item, back)) }
            @if let Some(words) = &card.invites_reply { (reply(visitor, item, words, back)) }
            (footer(card))
        }
    }
}

fn footer(card: &Card) -> Markup {
    html! {
        footer {
            span.code { (card.reference) }
            @if !card.fallback.is_empty() { " " span.fallback { (card.fallback) } }
        }
    }
}

fn draw_block(block: &Block) -> Markup {
    match block {
        Block::Exact { label, text } => html! {
            figure.exact { figcaption { (label) } pre { (text) } }
        },
        Block::Quote { label, text } => html! {
            figure.quote { figcaption { (label) } blockquote { (text) } }
        },
        Block::Items(items) => html! {
            ol.items { @for item in items { li { (item) } } }
        },
        Block::Warning(text) => html! { p.warning { span aria-hidden="true" { "⚠ " } (text) } },
        Block::Facts(facts) => html! {
            dl.facts {
                @for fact in facts { div { dt { (fact.label) } dd { (fact.value) } } }
            }
        },
    }
}

fn actions(visitor: &Visitor, item: &Item, back: &str) -> Markup {
    html! {
        div.actions {
            @for action in item.card.actions.iter().filter(|a| a.asks_for.is_none()) {
                form method="post" action="/console/tap" {
                    (tap_fields(visitor, item, action, back))
                    button type="submit" class=(emphasis_class(action.emphasis)) { (action.label) }
                }
            }
        }
        @for action in item.card.actions.iter() {
            @if let Some(words) = &action.asks_for {
                details.asks {
                    summary { (action.label) }
                    form method="post" action="/console/tap" {
                        (tap_fields(visitor, item, action, back))
                        label {
                            (words)
                            textarea name="text" rows="2" maxlength="2000" required {}
                        }
                        button type="submit" class=(emphasis_class(action.emphasis)) {
                            (action.label)
                        }
                    }
                }
            }
        }
    }
}

fn tap_fields(visitor: &Visitor, item: &Item, action: &Action, back: &str) -> Markup {
    html! {
        (form_fields(visitor, back))
        input type="hidden" name="message" value=(item.message);
        input type="hidden" name="token" value=(action.token.as_str());
    }
}

fn reply(visitor: &Visitor, item: &Item, words: &str, back: &str) -> Markup {
    html! {
        form.reply method="post" action="/console/say" {
            (form_fields(visitor, back))
            input type="hidden" name="reply_to" value=(item.message);
            label {
                (words)
                textarea name="text" rows="2" maxlength="8000" required {}
            }
            button.primary type="submit" { "Answer" }
        }
    }
}

fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Open => "open",
        Tone::Positive => "positive",
        Tone::Negative => "negative",
        Tone::Neutral => "neutral",
    }
}

fn emphasis_class(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::Primary => "primary",
        Emphasis::Secondary => "secondary",
        Emphasis::Destructive => "destructive",
    }
}

/// An instant in UTC, which script turns into the reader's own time.
fn time(at: SystemTime, is_relative: bool) -> Markup {
    let written = utc(at);
    let kind = if is_relative { "relative" } else { "local" };
    html! {
        time datetime=(written.replace(' ', "T").replace("TUTC", "Z")) data-show=(kind) {
            (PreEscaped(written))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_stay_words() {
        let page = message("x", "<script>alert(1)</script> `</code><b>`").into_string();
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(page.contains("<code>&lt;/code&gt;&lt;b&gt;</code>"), "{page}");
    }
}
