// Build the dashboard into ../monitor/static: hashed files, each with its compressed forms.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const COMPRESSED = /\.(css|js|svg)$/;
const WORTH_BYTES = 1024; // below that, headers weigh more than what is saved

/** Write `.br` and `.gz` beside every asset: the server sends them as they are. */
function compressed(): Plugin {
  let folder = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir, "assets");
      if (config.build.outDir.startsWith("/")) folder = join(config.build.outDir, "assets");
    },
    async closeBundle() {
      const names = (await readdir(folder)).filter((name) => COMPRESSED.test(name));
      for (const name of names) {
        const path = join(folder, name);
        const content = await readFile(path);
        if (content.length < WORTH_BYTES) continue;
        await writeFile(`${path}.br`, await promisify(brotliCompress)(content));
        await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compressed()],
  // The server replaces the word with a nonce of each answer (monitor/web/static.py).
  html: { cspNonce: "CSP_NONCE" },
  build: {
    outDir: "../monitor/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1600, // kB: Swagger UI, which only /docs loads
    rollupOptions: { input: ["index.html", "docs.html"] },
  },
  server: {
    // `npm run dev` beside `make run`.
    proxy: Object.fromEntries(
      ["/api", "/auth", "/prometheus", "/openapi.json"].map((path) => [path, "http://127.0.0.1:8080"]),
    ),
  },
});
