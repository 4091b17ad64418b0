// The console in a real browser: what a person sees and presses, at the width of a
// phone, in light and in dark, with and without script.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const run = promisify(execFile);
const sayso = process.env.SAYSO;
const pictures = path.resolve(import.meta.dirname, '../../target/screenshots');
const home = mkdtempSync(path.join(tmpdir(), 'sayso-browser-'));
const env = { ...process.env, SAYSO_DATA_DIR: home, SAYSO_SERVER__LISTEN: '127.0.0.1:0' };
const children = new Set();
let server;
let browser;
let base;

before(async () => {
  mkdirSync(pictures, { recursive: true });
  server = spawn(sayso, ['serve'], { env, cwd: home, stdio: ['ignore', 'pipe', 'inherit'] });
  const line = await new Promise((resolve, reject) => {
    server.stdout.once('data', (data) => resolve(String(data)));
    server.once('exit', () => reject(new Error('the server ended')));
  });
  base = line.match(/http:\/\/[^/]+/)[0];
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
});

after(async () => {
  for (const child of children) child.kill();
  await browser?.close();
  if (server) {
    server.kill('SIGTERM');
    await new Promise((resolve) => server.once('exit', resolve));
  }
  rmSync(home, { recursive: true, force: true });
});

async function link() {
  const { stdout } = await run(sayso, ['console', 'link', '--json'], { env, cwd: home });
  return base + new URL(JSON.parse(stdout).url).pathname + new URL(JSON.parse(stdout).url).search;
}

/** A visitor who is logged in, on a page that reports every error of its own. */
async function visit(options = {}) {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  await page.goto(await link());
  if (options.javaScriptEnabled === false) await page.getByRole('button', { name: 'Open the console' }).click();
  await page.waitForURL('**/console/');
  return { page, errors, close: () => context.close() };
}

/** Parks something at the keyboard; how the command ends. */
function park(...args) {
  const child = spawn(sayso, args, { env, cwd: home });
  children.add(child);
  let out = '';
  child.stdout.on('data', (data) => { out += data; });
  const done = new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, out: out.trim() }));
  });
  return { done };
}

const card = (page, title) => page.locator('article', { hasText: title });

test('a card appears by itself and a press on it lets the command run', async () => {
  const { page, errors, close } = await visit();
  await page.getByText('Nothing waits').waitFor();
  const asked = park('approve', '--title', 'Say hello', '--', 'echo', 'hello there');
  const shown = card(page, 'Say hello');
  await shown.waitFor();
  assert.equal(await shown.locator('pre').first().innerText(), "echo 'hello there'");
  await page.screenshot({ path: path.join(pictures, 'card.png') });
  await shown.getByRole('button', { name: 'Approve once' }).click();
  await page.getByRole('status').filter({ hasText: 'Approved: Say hello' }).waitFor();
  assert.deepEqual(await asked.done, { code: 0, out: 'hello there' });
  await page.getByText('Nothing waits').waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test('a denial can carry a reason', async () => {
  const { page, errors, close } = await visit();
  const asked = park('approve', '--title', 'Drop the table', '--', 'false');
  const shown = card(page, 'Drop the table');
  await shown.locator('summary').click();
  await shown.getByLabel('Why not?').fill('wrong database & <b>cluster</b>');
  await shown.getByRole('button', { name: 'Deny with reason' }).click();
  await page.getByRole('status').filter({ hasText: 'Denied' }).waitFor();
  assert.equal((await asked.done).code, 10);
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByText('wrong database & <b>cluster</b>').waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test('a question is answered by an option, in words, or skipped', async () => {
  const { page, errors, close } = await visit();
  const option = park('ask', 'Which region?', '--option', 'EU (Frankfurt)', '--option', 'US');
  await card(page, 'Which region?').getByRole('button', { name: 'EU (Frankfurt)' }).click();
  assert.deepEqual(await option.done, { code: 0, out: 'EU (Frankfurt)' });

  const words = park('ask', 'Name of the branch?');
  await card(page, 'Name of the branch?').getByLabel('Your answer').fill('feature/x');
  await card(page, 'Name of the branch?').getByRole('button', { name: 'Answer' }).click();
  assert.deepEqual(await words.done, { code: 0, out: 'feature/x' });

  const skipped = park('ask', 'Really?');
  await card(page, 'Really?').getByRole('button', { name: 'Skip' }).click();
  assert.equal((await skipped.done).code, 14);
  assert.deepEqual(errors, []);
  await close();
});

test('a code and a verb can be typed as in a chat', async () => {
  const { page, errors, close } = await visit();
  const asked = park('approve', '--title', 'By code', '--', 'true');
  const code = await card(page, 'By code').locator('.code').innerText();
  await page.getByLabel('Type a code or words').fill(`${code} approve`);
  await page.keyboard.press('Enter');
  await page.getByRole('status').filter({ hasText: `Approved: By code (${code})` }).waitFor();
  assert.equal((await asked.done).code, 0);
  assert.deepEqual(errors, []);
  await close();
});

test('what is too long is opened before it can be approved', async () => {
  const { page, errors, close } = await visit();
  const long = `echo ${'x'.repeat(9000)} >/dev/null; echo the dangerous end`;
  const asked = park('approve', '--title', 'Long one', '--', 'sh', '-c', long);
  const shown = card(page, 'Long one');
  await shown.getByText('This is not the whole text').waitFor();
  assert.match(await shown.locator('pre').first().innerText(), /more characters …⟧[^]*the dangerous end/);
  assert.equal(await shown.getByRole('button', { name: 'Approve once' }).count(), 0);
  await shown.getByRole('button', { name: 'Show all' }).click();
  await card(page, 'Long one').getByRole('button', { name: 'Approve once' }).click();
  assert.deepEqual(await asked.done, { code: 0, out: 'the dangerous end' });
  assert.deepEqual(errors, []);
  await close();
});

test('a card that was decided elsewhere closes on the open page', async () => {
  const { page, errors, close } = await visit();
  const asked = park('approve', '--title', 'Decided elsewhere', '--', 'true');
  const shown = card(page, 'Decided elsewhere');
  await shown.waitFor();
  const code = await shown.locator('.code').innerText();
  await run(sayso, ['requests', 'decide', code, 'approve'], { env, cwd: home });
  await shown.waitFor({ state: 'detached' });
  await page.locator('.past li', { hasText: 'Decided elsewhere' }).filter({ hasText: 'via cli' }).waitFor();
  assert.equal((await asked.done).code, 0);
  assert.deepEqual(errors, []);
  await close();
});

test('an answer that is being written is not taken away by news', async () => {
  const { page, errors, close } = await visit();
  park('ask', 'Slow answer?');
  const field = card(page, 'Slow answer?').getByLabel('Your answer');
  await field.fill('half an ans');
  park('ask', 'News?', '--wait', '10ms');
  await page.waitForFunction(async () => (await (await fetch('/console/')).text()).includes('News?'));
  // The page hears of it at the same moment; give it two looks.
  for (let i = 0; i < 2; i += 1) await page.evaluate(async () => { await fetch('/console/'); });
  await field.pressSequentially('wer');
  assert.equal(await field.inputValue(), 'half an answer');
  await card(page, 'Slow answer?').getByRole('button', { name: 'Answer' }).click();
  await page.getByRole('status').filter({ hasText: 'half an answer' }).waitFor();
  await card(page, 'News?').getByRole('button', { name: 'Skip' }).click();
  assert.deepEqual(errors, []);
  await close();
});

test('everything works without script and from the keyboard', async () => {
  const { page, close } = await visit({ javaScriptEnabled: false });
  const asked = park('approve', '--title', 'No script', '--', 'true');
  for (let i = 0; i < 100 && await card(page, 'No script').count() === 0; i += 1) await page.reload();
  const button = card(page, 'No script').getByRole('button', { name: 'Approve once' });
  await button.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('status').filter({ hasText: 'Approved: No script' }).waitFor();
  assert.equal((await asked.done).code, 0);
  await close();
});

test('the page of a card tells its story', async () => {
  const { page, errors, close } = await visit();
  park('ask', 'What happened here?', '--wait', '10ms');
  await card(page, 'What happened here?').getByRole('link', { name: 'What happened here?' }).click();
  await page.getByText('Parked by cli').waitFor();
  await page.getByRole('button', { name: 'Skip' }).click();
  await page.locator('.trail').getByText('Skipped by owner via console').waitFor();
  await page.screenshot({ path: path.join(pictures, 'story.png'), fullPage: true });
  assert.deepEqual(errors, []);
  await close();
});

test('nothing is wider than a phone, in light and in dark', async () => {
  park('approve', '--wait', '10ms', '--title', `Deploy ${'verylongword'.repeat(12)}`, '--risk', 'high',
    '--body', 'All tests passed. ✅ Approved by Ada — tap 👍', '--', 'kubectl', 'apply', '-f', `/${'path'.repeat(60)}`);
  park('approve', '--wait', '10ms', '--tool', 'http.post', '--input', JSON.stringify({
    url: 'https://p\u0430ypal.com/x', retries: 3, note: 'rm -rf ./build\u202e/cba',
    headers: { authorization: 'Bearer sk-live-EXAMPLE1234567890' },
  }));
  park('ask', 'Which region should the new cluster live in?', '--wait', '10ms',
    '--option', 'EU (Frankfurt)', '--option', 'US (Virginia)', '--option', 'Asia (Singapore)');
  for (const colorScheme of ['light', 'dark']) {
    for (const [name, viewport] of [['phone', { width: 360, height: 780 }], ['desk', { width: 1200, height: 900 }]]) {
      const { page, errors, close } = await visit({ colorScheme, viewport });
      await card(page, 'Which region should').waitFor();
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} ${colorScheme}: ${overflow} too wide`);
      const small = await page.locator('article button').evaluateAll((all) => all.filter((b) => {
        const box = b.getBoundingClientRect();
        return box.height > 0 && box.height < 44;
      }).length);
      assert.equal(small, 0, 'every button is large enough for a thumb');
      const text = await page.locator('main').innerText();
      assert.ok(!text.includes('EXAMPLE1234567890'), 'a secret is masked');
      assert.ok(text.includes('⟦U+202E⟧'), 'what is hidden is spelt out');
      assert.ok(text.includes('may be an imitation'), 'an odd host is flagged');
      await page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}.png`), fullPage: true });
      assert.deepEqual(errors, []);
      await close();
    }
  }
});
