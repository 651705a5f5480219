// The login.

import { Alert, Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { answer, api, words } from "../../api/client";
import { Door } from "../../ui/Door";

/** Return *path* if it is one of this site, else the first page. */
function ownPath(path: string | null): string {
  return path && /^\/(?![/\\])/.test(path) ? path : "/";
}

export default function Login() {
  useDocumentTitle("Log in · monitor");
  const [params] = useSearchParams();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const logIn = async (form: FormData) => {
    setBusy(true);
    setError(null);
    try {
      const body = { email: `${form.get("email")}`, password: `${form.get("password")}` };
      // The session is the cookie; the token in the answer is for programs.
      const { mustChangePassword } = await answer(api.POST("/auth/login", { body }));
      client.clear();
      await navigate(mustChangePassword ? "/password" : ownPath(params.get("next")), { replace: true });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Door title="Log in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void logIn(new FormData(event.currentTarget));
        }}
      >
        <Stack>
          <TextInput label="E-mail" name="email" type="email" autoComplete="username" required autoFocus />
          <PasswordInput label="Password" name="password" autoComplete="current-password" required />
          {error !== null && (
            <Alert color="red" variant="outline" role="alert">
              {words(error)}
            </Alert>
          )}
          <Button type="submit" loading={busy}>
            Log in
          </Button>
        </Stack>
      </form>
    </Door>
  );
}
