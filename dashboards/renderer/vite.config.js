import { defineConfig } from 'vite';

// @grafana/ui brings an editor and a map library. No panel here needs them and they triple the build.
const UNUSED = /^(monaco-editor|@monaco-editor\/react|react-monaco-editor|ol)(\/|$)/;
const unused = {
  name: 'unused',
  enforce: 'pre',
  resolveId: (id) => (UNUSED.test(id) ? '\0unused' : null),
  load: (id) => (id === '\0unused'
    ? 'export default {}; export const editor = {}, languages = {}, KeyMod = {}, KeyCode = {}, loader = { config() {} };'
    : null),
};

export default defineConfig({
  base: './',
  plugins: [unused],
  esbuild: { jsx: 'automatic' },
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis' },
  build: { target: 'es2022', chunkSizeWarningLimit: 20000, reportCompressedSize: false, rollupOptions: { shimMissingExports: true } },
});
