// What the pages about scaling ask for.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { answer, api } from "./client";
import { windowOf, type Span } from "./queries";

const SCALING_REFRESH_MS = 5_000; // policies are evaluated every 15 s
export const STEP_SECONDS = 15; // between two evaluations
export const DECISIONS_SHOWN = 200; // of the log

export const usePolicies = () =>
  useQuery({
    queryKey: ["policies"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/scaling/policies", { signal })),
    refetchInterval: SCALING_REFRESH_MS,
  });

export const usePolicy = (id: string) =>
  useQuery({
    queryKey: ["policies", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/scaling/policies/{id}", { params: { path: { id } }, signal })),
    refetchInterval: SCALING_REFRESH_MS,
  });

/** The newest decisions, of one policy or, without *policyId*, of all. */
export const useDecisions = (policyId: string, limit = DECISIONS_SHOWN) =>
  useQuery({
    queryKey: ["decisions", policyId, limit],
    queryFn: ({ signal }) => {
      const query = { limit, ...(policyId && { policyId }) };
      return answer(api.GET("/api/v1/scaling/decisions", { params: { query }, signal }));
    },
    refetchInterval: SCALING_REFRESH_MS,
    placeholderData: keepPreviousData,
  });

/** The fields of a policy, as a request has them. */
export type Fields = Record<string, unknown>;

/** What a policy, by its id or its fields, would have decided over *span*. */
export const useSimulation = (policy: string | Fields | null, span: Span) =>
  useQuery({
    queryKey: ["simulation", policy, span],
    enabled: policy !== null,
    queryFn: async ({ signal }) => {
      const window = windowOf(span, STEP_SECONDS, Date.now() / 1000);
      const { start, end } = window;
      const call =
        typeof policy === "string"
          ? api.POST("/api/v1/scaling/policies/{id}/simulate", {
              params: { path: { id: policy } },
              body: { start, end },
              signal,
            })
          : api.POST("/api/v1/scaling/simulate", { body: { ...policy, start, end } as never, signal });
      return { window, ...(await answer(call)) };
    },
    structuralSharing: false,
  });

export const verify = () => answer(api.GET("/api/v1/scaling/decisions/verify"));

export const createPolicy = (body: Fields) => answer(api.POST("/api/v1/scaling/policies", { body: body as never }));

export const changePolicy = (id: string, body: Fields) =>
  answer(api.PUT("/api/v1/scaling/policies/{id}", { params: { path: { id } }, body: body as never }));

export const deletePolicy = (id: string) =>
  answer(api.DELETE("/api/v1/scaling/policies/{id}", { params: { path: { id } } }));

export const rollBack = (id: string) =>
  answer(api.POST("/api/v1/scaling/policies/{id}/rollback", { params: { path: { id } } }));

export const wake = (id: string) => answer(api.POST("/api/v1/scaling/policies/{id}/wake", { params: { path: { id } } }));

/** Decide on the proposal of one generation: another one that waits meanwhile is not touched. */
export const decide = (id: string, verdict: "approve" | "reject", generation: number, comment: string) => {
  const given = { params: { path: { id } }, body: { generation, comment: comment || null } };
  return answer(
    verdict === "approve"
      ? api.POST("/api/v1/scaling/policies/{id}/approve", given)
      : api.POST("/api/v1/scaling/policies/{id}/reject", given),
  );
};
