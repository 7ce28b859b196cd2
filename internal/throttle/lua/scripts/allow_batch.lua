-- allow_batch decides many requests for an admission, one after another, see admit.
--
-- KEYS      per request: state of the plan, log of the user's cap, logs of the named caps
-- ARGV[1]   how many plans follow; each is how many arguments it has, then those, see read_plan
-- then      per request: token of the admission, at most 62 bytes; number of its plan
--
-- Result    {now in µs, then for each request: allowed (1 or 0), at in µs, what decides (0: nothing, see opened)}.
--           For a refusal, `at` is the earliest moment at which it could be allowed. The result of a request that failed is
--           "error", what failed, 0: an error inside a list would leave the driver out of step, see docs/upstream.md.
--           The list is flat, since a list in a list costs Redis as much as a command
local plans, first = {}, 2
for _ = 1, tonumber(ARGV[1]) do
  plans[#plans + 1] = read_plan(first + 1)
  first = first + tonumber(ARGV[first]) + 1
end
local now = now_micros()

local function decide_request(i, key)
  local plan = copy_plan(plans[tonumber(ARGV[i + 1])], KEYS[key], KEYS[key + 1])
  for n, cap in ipairs(plan.named) do cap.key = KEYS[key + 1 + n] end
  return admit(plan, now, ARGV[i])
end

local result, key = { now }, 1
for i = first, #ARGV, 2 do
  local well, allowed, at, why = pcall(decide_request, i, key)
  if not well then allowed, at, why = 'error', type(allowed) == 'table' and allowed.err or tostring(allowed), 0 end
  local n = #result
  result[n + 1], result[n + 2], result[n + 3] = allowed, at, why
  key = key + 2 + #plans[tonumber(ARGV[i + 1])].named
end
return result
