// The start: providers, then the shell.

import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./style.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { ApiError } from "./api/client";
import { App } from "./app";
import { setNonce } from "get-nonce";
import { nonce } from "./nonce";
import { theme, variables } from "./theme";

setNonce(nonce); // for the style sheet that locks scrolling behind a dialog

const RELOADED = "reloaded-at";
const RELOAD_PAUSE_MS = 10_000; // a file that is really missing does not reload for ever

// After an upgrade an open tab asks for a page's file by its old name: take the new ones.
window.addEventListener("vite:preloadError", (event) => {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_PAUSE_MS) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  event.preventDefault();
  location.reload();
});

/** Whoever must log in, or change the password, is led there by the next look at `me`. */
function onError(error: unknown) {
  const redirects =
    error instanceof ApiError && (error.status === 401 || error.message === "password_change_required");
  if (redirects) void client.invalidateQueries({ queryKey: ["me"] });
}

const MOST_RETRIES = 2;

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => query.queryKey[0] !== "me" && onError(error) }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      networkMode: "always", // the service may run on this machine: being offline says nothing
      retry: (failures, error) => !(error instanceof ApiError && error.status < 500) && failures < MOST_RETRIES,
    },
    mutations: { networkMode: "always" },
  },
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variables}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <Notifications position="top-right" />
      <QueryClientProvider client={client}>
        <BrowserRouter>
          <App />
        </BrowserRouter>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
