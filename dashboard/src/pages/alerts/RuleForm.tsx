// A rule, new or changed, beside what it means for the present values and the past.

import {
  Alert as Message,
  Anchor,
  Autocomplete,
  Button,
  Code,
  Group,
  NativeSelect,
  SimpleGrid,
  Skeleton,
  Stack,
  Switch,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { lazy, Suspense, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { usePresent, useRules } from "../../api/alerts";
import { answer, api, ApiError, words, type Operator, type Rule } from "../../api/client";
import { useChange, useMe } from "../../api/queries";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { Pointer } from "../../ui/Pointer";
import { formatOf } from "../../ui/series";
import { useUrl } from "../../ui/url";
import { Templates } from "./Templates";
import { Trial } from "./Trial";
import { metricOf, OPERATORS, SEVERITIES, SIGNS } from "./words";

const Editor = lazy(() => import("../explore/Editor").then(({ Editor: shown }) => ({ default: shown })));

const PAUSE_MS = 500; // in the typing, until the service is asked
const NAME_MAX = 200; // characters that the service takes, and so below
const TEXT_MAX = 2_000;
const SEVERITY_MAX = 100;

interface Fields {
  name: string;
  metric: string;
  operator: Operator;
  threshold: string;
  severity: string;
  description: string;
  enabled: boolean;
}

const isOperator = (text: string | null): text is Operator => OPERATORS.some(({ value }) => value === text);

export default function RuleForm() {
  const { id } = useParams();
  const rules = useRules();
  const me = useMe();
  const [params] = useUrl();
  const rule = rules.data?.find((each) => each.id === id);
  const operator = params.get("operator");
  const given: Fields = {
    name: params.get("name") ?? "",
    metric: params.get("metric") ?? "",
    operator: isOperator(operator) ? operator : "gt",
    threshold: params.get("threshold") ?? "",
    severity: params.get("severity") ?? "warning",
    description: "",
    enabled: true,
  };
  return (
    <Page
      title={id === undefined ? "New rule" : (rule?.name ?? "Rule")}
      before={
        <Anchor component={Link} to="/alerts/rules" size="sm">
          ← All rules
        </Anchor>
      }
    >
      {id === undefined ? (
        me.data?.role === "viewer" ? (
          <Empty title="For members and admins">A viewer makes no rules.</Empty>
        ) : (
          <Form given={given} />
        )
      ) : (
        <Loaded
          query={rules}
          empty={() =>
            !rule && (
              <Empty title="There is no such rule" action={<Link to="/alerts/rules">All rules</Link>}>
                It may have been deleted.
              </Empty>
            )
          }
        >
          {() => rule && <Form key={rule.id} rule={rule} given={{ ...rule, threshold: `${rule.threshold}` }} />}
        </Loaded>
      )}
    </Page>
  );
}

function Form({ rule, given }: { rule?: Rule; given: Fields }) {
  const navigate = useNavigate();
  const me = useMe();
  const [fields, setFields] = useState(given);
  const set = (changes: Partial<Fields>) => setFields((before) => ({ ...before, ...changes }));
  const { name, metric, operator, threshold, severity, description, enabled } = fields;
  const number = threshold.trim() === "" ? NaN : Number(threshold);
  const valid = Number.isFinite(number);
  const [asked] = useDebouncedValue(
    JSON.stringify({ metric: metric.trim(), operator, threshold: valid ? number : null }),
    PAUSE_MS,
  );
  const condition = JSON.parse(asked) as { metric: string; operator: Operator; threshold: number | null };
  const save = useChange(
    async () => {
      const common = { name, threshold: number, severity };
      if (!rule) {
        const body = { ...common, metric: metric.trim(), operator, description: description || null };
        return (await answer(api.POST("/api/v1/alerts/rules", { body }))).warnings ?? [];
      }
      const path = { id: rule.id };
      await answer(api.PUT("/api/v1/alerts/rules/{id}", { params: { path }, body: { ...common, enabled } as never }));
      return [];
    },
    "rules",
    "alerts",
  );
  const refused = (field: string) =>
    save.error instanceof ApiError && save.error.field === field ? save.error.message : null;
  const elsewhere =
    save.error && !["name", "metric", "threshold", "severity", "description"].some((field) => refused(field));
  const readOnly = me.data?.role === "viewer";
  const format = formatOf(metricOf(metric));
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(undefined, {
            onSuccess: (warnings) => {
              for (const message of warnings) notifications.show({ color: "yellow", message, autoClose: false });
              void navigate("/alerts/rules");
            },
          });
        }}
      >
        <Stack>
          {!rule && <Templates onPick={(template) => set({ ...template, threshold: `${template.threshold}` })} />}
          <TextInput
            label="Name"
            required
            maxLength={NAME_MAX}
            readOnly={readOnly}
            value={name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            error={refused("name")}
          />
          {rule ? (
            <div>
              <Text size="sm" fw={600}>
                Selector
              </Text>
              <Code block className="title said" tabIndex={0} aria-label="Selector">
                {metric}
              </Code>
              <Text size="xs" c="dimmed" mt={4}>
                Selector and operator stay as they were made. For others, make another rule.
              </Text>
            </div>
          ) : (
            <div>
              <Text size="sm" fw={600} mb={2}>
                Selector
              </Text>
              <Suspense fallback={<Skeleton height={40} />}>
                <Editor
                  text={metric}
                  wrong={refused("metric") !== null}
                  onChange={(text) => set({ metric: text })}
                  onRun={(text) => set({ metric: text })}
                />
              </Suspense>
              <Refusal metric={condition.metric} saved={refused("metric")} />
            </div>
          )}
          <SimpleGrid cols={2}>
            <NativeSelect
              label="Fires when it is"
              value={operator}
              disabled={rule !== undefined}
              onChange={(event) => set({ operator: event.currentTarget.value as Operator })}
              data={OPERATORS}
            />
            <TextInput
              label="Threshold"
              inputMode="decimal"
              required
              readOnly={readOnly}
              value={threshold}
              onChange={(event) => set({ threshold: event.currentTarget.value })}
              error={threshold.trim() !== "" && !valid ? "Expected a number" : refused("threshold")}
              description={valid ? `${SIGNS[operator]} ${format(number)}` : "In the unit of the metric's name"}
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
          </SimpleGrid>
          <Autocomplete
            label="Severity"
            description="Any word; channels can be limited to some."
            data={SEVERITIES}
            maxLength={SEVERITY_MAX}
            readOnly={readOnly}
            value={severity}
            onChange={(value) => set({ severity: value })}
            error={refused("severity")}
          />
          {!rule ? (
            <Textarea
              label="Description"
              autosize
              minRows={2}
              maxRows={6}
              maxLength={TEXT_MAX}
              value={description}
              onChange={(event) => set({ description: event.currentTarget.value })}
              error={refused("description")}
            />
          ) : (
            <>
              {description && <Text size="sm">{description}</Text>}
              <Switch
                label="Enabled"
                description="Turned off, its open alerts are resolved."
                disabled={readOnly}
                checked={enabled}
                onChange={(event) => set({ enabled: event.currentTarget.checked })}
              />
            </>
          )}
          {elsewhere && (
            <Message color="red" variant="outline" role="alert">
              {words(save.error)}
            </Message>
          )}
          {!readOnly && (
            <Group>
              <Button type="submit" loading={save.isPending} disabled={!metric.trim() || !valid || !name.trim()}>
                {rule ? "Save" : "Make the rule"}
              </Button>
              <Button component={Link} to="/alerts/rules" variant="default">
                Cancel
              </Button>
            </Group>
          )}
        </Stack>
      </form>
      <Trial
        condition={{ ...condition, threshold: condition.threshold ?? 0 }}
        valid={condition.threshold !== null}
      />
    </SimpleGrid>
  );
}

/** What the service says against a selector: as it is typed, or when it was to be saved. */
function Refusal({ metric, saved }: { metric: string; saved: string | null }) {
  const present = usePresent(metric);
  const typed = present.error instanceof ApiError && present.error.status === 400 ? present.error.message : null;
  const error = saved ?? typed;
  if (!error) return null;
  return (
    <Message color="red" variant="outline" role="alert" mt="xs" title="This is refused">
      <Pointer text={metric} error={error} />
      {error}
    </Message>
  );
}
