// A new password for oneself.

import { Alert, Button, PasswordInput, Stack } from "@mantine/core";
import { useState } from "react";
import { answer, api, words } from "../api/client";
import { useChange } from "../api/queries";

const LEAST_CHARACTERS = 12; // as the service asks for

export function PasswordForm({ onDone }: { onDone: () => void }) {
  const [fields, setFields] = useState({ current: "", next: "", again: "" });
  const change = useChange(
    (body: { currentPassword: string; newPassword: string }) => answer(api.POST("/auth/password", { body })),
    "me",
  );
  const differs = fields.again !== "" && fields.again !== fields.next;
  const short = fields.next !== "" && fields.next.length < LEAST_CHARACTERS;
  const ready = fields.current !== "" && fields.next !== "" && fields.again === fields.next && !short;
  const field = (name: keyof typeof fields, label: string, autoComplete: string, error?: string | false) => (
    <PasswordInput
      label={label}
      autoComplete={autoComplete}
      value={fields[name]}
      onChange={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
      error={error}
      required
    />
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate(
          { currentPassword: fields.current, newPassword: fields.next },
          {
            onSuccess: () => {
              setFields({ current: "", next: "", again: "" });
              onDone();
            },
          },
        );
      }}
    >
      <Stack>
        {field("current", "Current password", "current-password")}
        {field("next", "New password", "new-password", short && `At least ${LEAST_CHARACTERS} characters`)}
        {field("again", "New password, again", "new-password", differs && "Not the same")}
        {change.error && (
          <Alert color="red" variant="outline" role="alert">
            {words(change.error)}
          </Alert>
        )}
        <Button type="submit" disabled={!ready} loading={change.isPending}>
          Change the password
        </Button>
      </Stack>
    </form>
  );
}
