-- The reply of a round, and what is remembered of it in case it is lost, put before serve.lua.

-- The reply is one flat list: Redis spends as much on a list in a list as on a command.
local reply, said = {}, 0

local function say(value)
  said = said + 1
  reply[said] = value
end

-- say_later leaves a place for a value that is not known yet, and gives its number.
local function say_later()
  said = said + 1
  reply[said] = 0
  return said
end

local function say_list(values)
  say(#values)
  for _, value in ipairs(values) do say(value) end
end

-- say_grant tells of a delivery that may begin.
local function say_grant(id, category, at, rule, generation, attempt, failures, arrival, payload, deferrals, history)
  local r, i = reply, said
  r[i + 1], r[i + 2], r[i + 3], r[i + 4], r[i + 5], r[i + 6] = id, category, at, rule, generation, attempt
  r[i + 7], r[i + 8], r[i + 9], r[i + 10], r[i + 11] = failures, arrival, payload, deferrals, history
  said = i + 11
end

-- Where a wake-up is after the answer: gone from here, held, or gone and on its way back since more may go at once.
local GONE, HELD, AGAIN = 0, 1, 2

-- say_where ends the answer for a wake-up: the deferrals that were decided, and where it is.
local function say_where(how)
  say_list(noted)
  say(how)
end

-- say_held ends it for one that stays at work here until a moment.
local function say_held(moment, category, rule, categories)
  say_where(HELD)
  say(moment)
  say(category)
  say(rule)
  say_list(categories)
end

-- What this round gave out, as it is remembered: its name; a line for each wake-up that was asked for, with generation and id of
-- its grants; a line for each new one: p, to be asked for, or t, taken up; generation, grants, user. Ids hold no space, users no
-- control character.
local memory, round_lines, gave = partition .. 'round:' .. ARGV[2], { ARGV[1] }, false

local function remember_in_round(text) round_lines[#round_lines + 1] = text end

local function remember_round()
  if gave then redis.call('SET', memory, table.concat(round_lines), 'PX', '60000') end
end

-- was_given_up tells whether a round has the same name as the one that is remembered, and an earlier number: its worker has gone
-- on, and nobody would know of what it gave out now.
local function was_given_up(round, remembered)
  local name, number = string.match(round, '^(.*)%.(%d+)$')
  local latest_name, latest = string.match(remembered, '^([^\n]*)%.(%d+)\n')
  return name ~= nil and name == latest_name and tonumber(number) < tonumber(latest)
end

-- say_grants_again tells of what a wake-up was granted and is still in flight; `given` is its part of the line.
local function say_grants_again(given)
  local place, grants = say_later(), 0
  for of, id in string.gmatch(given, '(%d+) (%S+)') do
    local f = redis.call('HMGET', partition .. 'n:' .. id, 's', 'c', 'm', 'g', 'o', 'f', 'v', 'b', 'd', 'h')
    if f[1] == 's' and f[4] == of then
      of, grants = tonumber(of), grants + 1
      say_grant(id, f[2], tonumber(f[3]), 0, of, of - tonumber(f[5] or 0), tonumber(f[6] or 0), tonumber(f[7]) + YEAR_2020, f[8],
        tonumber(f[9] or 0), f[10] or '')
    end
  end
  reply[place] = grants
end
