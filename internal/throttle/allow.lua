-- allow asks for admissions, one after the other, see admit.
--
-- KEYS      per question: state of the plan, log of the cap
-- ARGV[1]   how many plans follow; each is how many arguments it has, then those, see read_plan
-- then      per question: token of the admission, at most 62 bytes; number of its plan
--
-- Result    for each {allowed (1 or 0), at in µs, now in µs, number of the rule that decides (0: none)}, where `at` of a
--           refusal is the earliest moment at which it could be allowed; {"error", text} in place of one that could not be given: an error inside a list would
--           leave the driver out of step, see docs/upstream.md
local plans, first = {}, 2
for _ = 1, tonumber(ARGV[1]) do
  plans[#plans + 1] = read_plan(first + 1)
  first = first + tonumber(ARGV[first]) + 1
end
local now = now_micros()

local function question(i, key)
  local plan = like_plan(plans[tonumber(ARGV[i + 1])], KEYS[key], KEYS[key + 1])
  local allowed, at, why = admit(plan, now, ARGV[i])
  return { allowed, at, now, why }
end

local answers = {}
for i = first, #ARGV, 2 do
  local well, answer = pcall(question, i, 2 * #answers + 1)
  if not well then answer = { 'error', type(answer) == 'table' and answer.err or tostring(answer) } end
  answers[#answers + 1] = answer
end
return answers
