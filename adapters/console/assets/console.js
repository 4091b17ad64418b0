// Makes pages live. Everything works without it.
'use strict';

const go = document.querySelector('form[data-go]');
if (go) go.submit();

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });
function showTimes() {
  for (const time of document.querySelectorAll('time[data-show]')) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    if (time.dataset.show === 'local') {
      time.textContent = at.toLocaleString();
      continue;
    }
    const seconds = Math.round((at - Date.now()) / 1000);
    time.title = at.toLocaleString();
    time.textContent = Math.abs(seconds) < 90 ? relative.format(seconds, 'second')
      : Math.abs(seconds) < 5400 ? relative.format(Math.round(seconds / 60), 'minute')
      : relative.format(Math.round(seconds / 3600), 'hour');
  }
}
showTimes();
setInterval(showTimes, 5000);

// Somebody who is writing or about to press is not interrupted.
function isBusy(live) {
  const field = document.activeElement;
  if (field && live.contains(field) && field.matches('textarea, input, summary')) return true;
  return [...live.querySelectorAll('textarea')].some((area) => area.value !== '');
}

let stale = false;
async function refresh() {
  const live = document.getElementById('live');
  if (!live) return;
  if (isBusy(live)) { stale = true; return; }
  stale = false;
  const url = new URL(location.href);
  url.searchParams.delete('said');
  const answer = await fetch(url, { headers: { accept: 'text/html' } });
  if (answer.status === 401) { location.reload(); return; }
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const fresh = page.getElementById('live');
  if (!fresh || isBusy(live)) { stale = !!fresh; return; }
  const focused = document.activeElement && live.contains(document.activeElement)
    ? document.activeElement.closest('[id]')?.id : null;
  live.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.querySelector('a, button')?.focus();
  showTimes();
}
document.addEventListener('focusout', () => { if (stale) setTimeout(refresh, 200); });

const seen = document.body.dataset.seen;
if (seen !== undefined) {
  const events = new EventSource('/console/events?seen=' + encodeURIComponent(seen));
  events.addEventListener('changed', () => { refresh().catch(() => {}); });
  let wasDown = false;
  events.addEventListener('error', () => { wasDown = true; });
  events.addEventListener('open', () => { if (wasDown) { wasDown = false; refresh().catch(() => {}); } });
}
