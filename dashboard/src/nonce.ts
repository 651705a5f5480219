// The nonce that this page's policy lets style sheets carry which are made at run time.

export const nonce =
  document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
