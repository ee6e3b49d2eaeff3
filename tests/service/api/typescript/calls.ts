// Calls with a generated client; whatever is not as the document says does not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [baseUrl] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });

function check(condition: boolean, sentence: string): asserts condition {
  if (!condition) throw new Error(sentence);
}

const assets = await client.GET("/api/v2/assets", { params: { query: { name_pattern: "orders", limit: 1 } } });
const asset: components["schemas"]["AssetResponse"] | undefined = assets.data?.assets[0];
check(asset?.name === "orders", "the asset is listed");

const entry = { asset_id: asset.id, key: "k" };
const written = await client.PUT("/api/v2/assets/{asset_id}/store/{key}", {
  params: { path: entry },
  body: { value: { rows: 42 } },
});
check(written.response.status === 204, "an entry is written");
const read = await client.GET("/api/v2/assets/{asset_id}/store/{key}", { params: { path: entry } });
check(read.data?.last_updated_by?.kind === "api", "and read");

const told = await client.POST("/api/v2/assets/events", { body: { asset_id: asset.id, extra: { rows: 42 } } });
check(told.data?.asset_id === asset.id, "an event is told");

const missing = await client.GET("/api/v2/assets/{asset_id}", { params: { path: { asset_id: 999 } } });
const refusal: components["schemas"]["Refusal"] | components["schemas"]["Invalid"] | undefined = missing.error;
check(missing.response.status === 404 && typeof refusal?.detail === "string", "a refusal has its shape");

// @ts-expect-error  the document says that it is a truth value
await client.PATCH("/api/v2/dags/{dag_id}", { params: { path: { dag_id: "report" } }, body: { is_paused: 0 } });
console.log("called");
