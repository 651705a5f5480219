// What people do about an alert: acknowledge it with a comment, or resolve it.

import { Alert as Message, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { acknowledge, resolve } from "../../api/alerts";
import { words, type Alert } from "../../api/client";
import { useChange, useMe } from "../../api/queries";

const COMMENT_MAX = 2_000; // characters that the service takes

/** The buttons that an alert's state and the reader's role allow. */
export function Answering({ alert, size = "xs" }: { alert: Alert; size?: "xs" | "compact-xs" }) {
  const me = useMe();
  const [asking, ask] = useState(false);
  const change = useChange(resolve, "alerts");
  if (!me.data || me.data.role === "viewer" || alert.state === "resolved") return null;
  const of = `${alert.ruleName} of ${alert.resourceName}`;
  return (
    <>
      <Group gap={6} wrap="nowrap" justify="flex-end">
        {alert.state === "firing" && (
          <Button size={size} variant="default" onClick={() => ask(true)} aria-label={`Acknowledge ${of}`}>
            Acknowledge
          </Button>
        )}
        <Button
          size={size}
          variant="default"
          loading={change.isPending}
          aria-label={`Resolve ${of}`}
          onClick={() =>
            change.mutate(alert.id, {
              onError: (error) => notifications.show({ color: "red", message: words(error) }),
            })
          }
        >
          Resolve
        </Button>
      </Group>
      {asking && <Acknowledge alert={alert} onClose={() => ask(false)} />}
    </>
  );
}

function Acknowledge({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const [comment, setComment] = useState("");
  const change = useChange(acknowledge, "alerts");
  return (
    <Modal opened onClose={onClose} title={`Acknowledge ${alert.ruleName}`} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ id: alert.id, comment }, { onSuccess: onClose });
        }}
      >
        <Stack>
          <Text size="sm">{alert.message}. It stays open until it is resolved.</Text>
          <Textarea
            data-autofocus
            label="Comment"
            description="What is known, and who looks after it. Not needed."
            autosize
            minRows={2}
            maxRows={8}
            maxLength={COMMENT_MAX}
            value={comment}
            onChange={(event) => setComment(event.currentTarget.value)}
          />
          {change.error && (
            <Message color="red" variant="outline" role="alert">
              {words(change.error)}
            </Message>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={change.isPending}>
              Acknowledge
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
