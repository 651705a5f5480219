// A channel, new or changed.  What is secret is never shown again: empty, it stays as it is.

import {
  Alert as Message,
  Button,
  Checkbox,
  Group,
  Modal,
  MultiSelect,
  NativeSelect,
  PasswordInput,
  Stack,
  Switch,
  TagsInput,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { useRules } from "../../api/alerts";
import { answer, api, ApiError, words, type Channel, type ChannelType } from "../../api/client";
import { useChange } from "../../api/queries";
import { SEVERITIES } from "./words";

interface Setting {
  name: "url" | "secret" | "to";
  label: string;
  description: string;
  secret?: boolean;
  optional?: boolean;
}

const TYPES: Record<ChannelType, { label: string; settings: Setting[] }> = {
  webhook: {
    label: "Webhook",
    settings: [
      { name: "url", label: "URL", description: "It is sent one JSON document a message." },
      {
        name: "secret",
        label: "Secret",
        description: "Signs every message: HMAC-SHA256 of timestamp and body.",
        secret: true,
        optional: true,
      },
    ],
  },
  alertmanager: {
    label: "Alertmanager",
    settings: [{ name: "url", label: "URL", description: "Of the Alertmanager itself, without /api/v2." }],
  },
  slack: {
    label: "Slack",
    settings: [{ name: "url", label: "URL", description: "Of an incoming webhook: whoever knows it can post.", secret: true }],
  },
  email: {
    label: "E-mail",
    settings: [{ name: "to", label: "To", description: "Up to 20 addresses, with commas between them." }],
  },
  apprise: {
    label: "Apprise",
    settings: [{ name: "url", label: "URL", description: "As Apprise writes it; it holds the receiver's tokens.", secret: true }],
  },
};

/** What stands in a field for a setting that is stored. */
const shownAs = (value: unknown) => [value ?? ""].flat().join(", ");

/** Return the settings that a request sends; a secret that stays as it is is left out. */
function settingsOf(type: ChannelType, fields: Record<string, string>, without: ReadonlySet<string>) {
  const sent: Record<string, unknown> = {};
  for (const { name, secret, optional } of TYPES[type].settings) {
    const text = (fields[name] ?? "").trim();
    if (without.has(name)) sent[name] = null;
    else if (name === "to") {
      const addresses = text.split(/[\s,;]+/).filter(Boolean);
      sent[name] = addresses.length > 1 ? addresses : (addresses[0] ?? "");
    } else if (text || !(secret || optional)) sent[name] = text;
  }
  return sent;
}

export function ChannelForm({ channel, onClose }: { channel?: Channel; onClose: () => void }) {
  const rules = useRules();
  const [type, setType] = useState<ChannelType>(channel?.type ?? "webhook");
  const [fields, setFields] = useState<Record<string, string>>(
    Object.fromEntries(Object.entries(channel?.settings ?? {}).map(([name, value]) => [name, shownAs(value)])),
  );
  const [without, setWithout] = useState<ReadonlySet<string>>(new Set());
  const [common, setCommon] = useState({
    name: channel?.name ?? "",
    severities: [...(channel?.severities ?? [])],
    ruleIds: [...(channel?.ruleIds ?? [])],
    sendResolved: channel?.sendResolved ?? true,
    enabled: channel?.enabled ?? true,
  });
  const set = (changes: Partial<typeof common>) => setCommon((before) => ({ ...before, ...changes }));
  const save = useChange(async () => {
    const body = { ...common, settings: settingsOf(type, fields, without) };
    if (type === "alertmanager") body.sendResolved = true;
    if (!channel) return answer(api.POST("/api/v1/settings/channels", { body: { ...body, type } as never }));
    const path = { id: channel.id };
    return answer(api.PUT("/api/v1/settings/channels/{id}", { params: { path }, body: body as never }));
  }, "channels");
  const field = save.error instanceof ApiError ? save.error.field : undefined;
  const refused = (name: string) => (field === name && save.error ? words(save.error) : null);
  const places = ["name", "type", ...TYPES[type].settings.map(({ name }) => `settings.${name}`)];
  const known = rules.data ?? [];
  return (
    <Modal opened onClose={onClose} title={channel ? `The channel ${channel.name}` : "New channel"} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(undefined, { onSuccess: onClose });
        }}
      >
        <Stack>
          <TextInput
            data-autofocus
            label="Name"
            required
            maxLength={200}
            value={common.name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            error={refused("name")}
          />
          <NativeSelect
            label="Type"
            value={type}
            disabled={channel !== undefined}
            onChange={(event) => setType(event.currentTarget.value as ChannelType)}
            data={Object.entries(TYPES).map(([value, { label }]) => ({ value, label }))}
            error={refused("type")}
          />
          {TYPES[type].settings.map(({ name, label, description, secret, optional }) => {
            const isSet = channel?.secretsSet.includes(name) ?? false;
            const Input = secret ? PasswordInput : TextInput;
            return (
              <Stack key={name} gap={6}>
                <Input
                  label={label}
                  description={description}
                  required={!optional && !isSet}
                  disabled={without.has(name)}
                  placeholder={isSet ? "Set. Empty, it stays as it is." : ""}
                  autoComplete={secret ? "new-password" : "off"}
                  value={fields[name] ?? ""}
                  onChange={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
                  error={refused(`settings.${name}`)}
                />
                {isSet && optional && (
                  <Checkbox
                    label={`Take the ${label.toLowerCase()} away`}
                    checked={without.has(name)}
                    onChange={(event) => setWithout(new Set(event.currentTarget.checked ? [name] : []))}
                  />
                )}
              </Stack>
            );
          })}
          <TagsInput
            label="Severities"
            description="Only alerts of these; empty: of all."
            data={SEVERITIES}
            value={common.severities}
            onChange={(severities) => set({ severities })}
            comboboxProps={{ withinPortal: true }}
          />
          <MultiSelect
            label="Rules"
            description="Only alerts of these; empty: of all."
            data={[
              ...known.map(({ id, name }) => ({ value: id, label: name })),
              ...common.ruleIds.filter((id) => !known.some((rule) => rule.id === id)),
            ]}
            value={common.ruleIds}
            onChange={(ruleIds) => set({ ruleIds })}
            searchable
          />
          <Switch
            label="Tell when an alert is resolved"
            description={type === "alertmanager" ? "An Alertmanager is always told: its own receivers decide." : undefined}
            disabled={type === "alertmanager"}
            checked={type === "alertmanager" || common.sendResolved}
            onChange={(event) => set({ sendResolved: event.currentTarget.checked })}
          />
          <Switch
            label="Enabled"
            checked={common.enabled}
            onChange={(event) => set({ enabled: event.currentTarget.checked })}
          />
          {save.error && !(field && places.includes(field)) && (
            <Message color="red" variant="outline" role="alert">
              {words(save.error)}
            </Message>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={save.isPending}>
              {channel ? "Save" : "Make the channel"}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
