// Peers of the benchmarks that are written for Node. Each run does one thing and prints its rate per second.
//
// usage: node peers.mjs dispatch|accept|limiter SOCKET N
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { RedisRateLimiter } from "rolling-rate-limiter";

const BATCH = 1000;
const IN_FLIGHT = 256;
const CALLERS = 50;

const connect = (socket) => new Redis(socket, { maxRetriesPerRequest: null });

const rate = (n, since) => n / ((performance.now() - since) / 1000);

// addBulk adds n jobs, in batches one after the other.
async function addBulk(queue, n) {
  for (let from = 0; from < n; from += BATCH) {
    const jobs = [];
    for (let i = from; i < Math.min(n, from + BATCH); i++) {
      jobs.push({ name: "job", data: { user: `user-${i}`, n: String(i) }, opts: { removeOnComplete: true } });
    }
    await queue.addBulk(jobs);
  }
}

// accept: BullMQ's addBulk.
async function accept(socket, n) {
  const queue = new Queue("bench", { connection: connect(socket) });
  await queue.waitUntilReady();
  const start = performance.now();
  await addBulk(queue, n);
  const result = rate(n, start);
  if ((await queue.getWaitingCount()) !== n) throw new Error("not all jobs wait");
  return result;
}

// dispatch: a BullMQ worker whose jobs do nothing; all wait before it starts.
async function dispatch(socket, n) {
  const queue = new Queue("bench", { connection: connect(socket) });
  await addBulk(queue, n);
  let done = 0;
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  const start = performance.now();
  const worker = new Worker("bench", async () => {}, { connection: connect(socket), concurrency: IN_FLIGHT });
  worker.on("completed", () => {
    if (++done === n) finished();
  });
  await all;
  return rate(n, start);
}

// limiter: rolling-rate-limiter, with a limit and a gap.
async function limiter(socket, n) {
  const client = connect(socket);
  const rolling = new RedisRateLimiter({ client, namespace: "bench:", interval: 60_000, maxInInterval: 10, minDifference: 1 });
  let next = 0;
  const start = performance.now();
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      for (let i = next++; i < n; i = next++) await rolling.limit(`user-${i % 1000}`);
    }),
  );
  return rate(n, start);
}

const [what, socket, n] = process.argv.slice(2);
console.log(await { accept, dispatch, limiter }[what](socket, Number(n)));
process.exit(0);
