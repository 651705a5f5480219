// What cannot be undone is asked for first; what takes data with it, by typing its name.

import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { words } from "../api/client";

interface Props {
  title: string;
  /** What will happen. */
  children: ReactNode;
  /** The word on the button. */
  verb: string;
  /** What has to be typed; without it the button is enough. */
  typed?: string;
  action: () => Promise<unknown>;
  onClose: () => void;
}

export function Confirm({ title, children, verb, typed, action, onClose }: Props) {
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      await action();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Modal opened onClose={onClose} title={title} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <Text component="div">{children}</Text>
          {typed !== undefined && (
            <TextInput
              data-autofocus
              label={`Type ${typed} to confirm`}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
              autoComplete="off"
            />
          )}
          {error !== null && (
            <Alert color="red" variant="outline" role="alert">
              {words(error)}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" color="red" loading={busy} disabled={typed !== undefined && text !== typed}>
              {verb}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
