// The page: it subscribes with pacer's public key, and lists what the service worker received.

const status = document.querySelector("#status");
const order = document.querySelector("#order");

document.querySelector("#subscribe").addEventListener("click", () => attempt(subscribe));
order.addEventListener("click", () => attempt(async () => {
  await ask("/order", { method: "POST" });
  status.textContent = "Ordered.";
}));
navigator.serviceWorker.addEventListener("message", ({ data }) => show(data));

async function subscribe() {
  if (await Notification.requestPermission() !== "granted") {
    status.textContent = "Notifications are off for this site: allow them in the browser's settings.";
    return;
  }
  await navigator.serviceWorker.register("worker.js");
  const worker = await navigator.serviceWorker.ready;
  const { public_key } = await (await ask("/key")).json();
  const subscription = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key });
  await ask("/subscription", { method: "PUT", body: JSON.stringify(subscription) });
  status.textContent = "Subscribed.";
  order.disabled = false;
}

async function ask(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) {
    throw new Error(await response.text());
  }
  return response;
}

async function attempt(what) {
  try {
    await what();
  } catch (error) {
    status.textContent = `That failed: ${error.message}`;
  }
}

function show({ title, body }) {
  const line = document.createElement("li");
  const strong = document.createElement("strong");
  strong.textContent = title;
  const time = document.createElement("time");
  time.textContent = new Date().toLocaleTimeString();
  line.append(strong, document.createElement("br"), body, " ", time);
  document.querySelector("#received").append(line);
}
