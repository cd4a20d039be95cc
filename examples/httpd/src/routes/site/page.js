// Asks every route once and writes what came into the page.
"use strict";

const EVENTS = 3;

const routes = {
  async facts() {
    const facts = await (await fetch("/json")).json();
    return `${facts.name} ${facts.version}`;
  },

  async sum() {
    const body = JSON.stringify({ name: "primes", values: [2, 3, 5, 7] });
    const answer = await fetch("/json", { method: "POST", body });
    const { name, count, sum } = await answer.json();
    return `${count} ${name} make ${sum}`;
  },

  async query() {
    const name = encodeURIComponent("Grüße & co");
    return (await fetch(`/query?name=${name}`)).text();
  },

  async stream() {
    const reader = (await fetch("/stream")).body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    let pieces = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      text += decoder.decode(value, { stream: true });
      pieces += 1;
    }
    const lines = text.split("\n").length - 1;
    return `${lines} lines in ${pieces > 1 ? "pieces" : "one piece"}`;
  },

  events() {
    return new Promise((resolve, reject) => {
      const source = new EventSource("/events");
      const counts = [];
      source.addEventListener("count", (event) => {
        counts.push(event.data);
        if (counts.length === EVENTS) {
          source.close();
          resolve(`counts ${counts.join(", ")}`);
        }
      });
      source.onerror = () => reject(new Error("the events broke off"));
    });
  },

  echo() {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(`ws://${location.host}/echo`);
      socket.onopen = () => socket.send("over and out");
      socket.onmessage = (event) => {
        socket.close();
        resolve(`heard ${event.data}`);
      };
      socket.onerror = () => reject(new Error("the socket broke off"));
    });
  },
};

async function ask([id, route]) {
  const place = document.getElementById(id);
  try {
    place.textContent = await route();
    return true;
  } catch (error) {
    place.textContent = `failed: ${error.message}`;
    return false;
  }
}

async function askAll() {
  const answered = await Promise.all(Object.entries(routes).map(ask));
  const all = answered.every((one) => one);
  document.getElementById("outcome").textContent = all ? "all answered" : "some failed";
}

askAll();
